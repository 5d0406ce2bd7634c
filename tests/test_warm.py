"""A start of `warm` is to the process and to its parent what a start of Python is."""

import os
import signal
import subprocess
import sys

import pytest
import warm

SEEN = """
import os, signal, sys, threading
print(__name__, sys.argv, sys.orig_argv[-2:], sys.path, os.getcwd(), os.environ.get("PLANTED"), sys.stdin.read())
print([str(signal.getsignal(one)) for one in range(1, 32)], signal.pthread_sigmask(signal.SIG_BLOCK, ()))
print(sorted(os.listdir("/proc/self/fd")), threading.active_count(), os.getppid(), sorted(vars()), __file__)
print({"torch", "numpy", "PIL", "pipebench", "warm", "pytest"} & set(sys.modules), sys.flags, file=sys.stderr)
"""
ENDS = {
    "end": "",
    "status": "sys.exit(3)",
    "text": "sys.exit('text')",
    "error": "1 / 0",
    "interrupt": "raise KeyboardInterrupt",
    "at once": "os._exit(5)",
    "signal": "os.kill(os.getpid(), 9)",
    "at exit": "import atexit; atexit.register(print, 'last'); threading.Thread(target=print, args=['thread']).start()",
}


def both(*arguments, cwd, **how):
    how.update(
        cwd=cwd, capture_output=True, text=True, timeout=120, env={**os.environ, "PLANTED": "a b"}, input="typed"
    )
    return [
        (done.returncode, done.stdout, done.stderr)
        for done in (run([sys.executable, *arguments], **how) for run in (subprocess.run, warm.run))
    ]


@pytest.mark.parametrize("how", ENDS)
def test_a_script_sees_the_same_and_ends_the_same(how, tmp_path):
    (tmp_path / "script.py").write_text(SEEN + ENDS[how] + "\n")
    real, ours = both("script.py", "a", "--b", cwd=tmp_path)
    assert ours == real and real[2].startswith("set()")


def test_code_and_a_module_see_the_same(tmp_path):
    (tmp_path / "module.py").write_text(SEEN)
    for arguments in (["-c", "import sys; print(sys.argv, sys.path[0], __name__)", "x"], ["-m", "module", "x"]):
        real, ours = both(*arguments, cwd=tmp_path)
        assert ours == real and real[0] == 0


def test_torch_is_there_once_it_is_imported_and_a_script_under_watch_is_a_fork_too(tmp_path):
    (tmp_path / "script.py").write_text(
        "import os, sys\nassert 'torch' not in sys.modules\nimport torch\nfrom torchvision.transforms import v2\n"
        "assert 'torch.utils.data._utils.worker' in sys.modules and v2.Compose([abs])(-3) == 3\n"
        "print(os.execvpe.__module__)\n"
    )
    command = [sys.executable, "-m", "pipebench", "watch", "script.py"]
    done = warm.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "__main__\n"), done.stderr


def test_a_signal_reaches_it_and_its_group():
    code = "import time; print('ready', flush=True); time.sleep(100)"
    process = warm.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    with process:
        assert process.stdout.readline() == "ready\n" and os.getpgid(process.pid) == process.pid
        os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


def test_the_process_that_imported_torch_ends_though_a_fork_holds_its_socket():
    warm.run([sys.executable, "-c", ""])  # it has been started
    child = os.fork()
    if not child:
        signal.alarm(60)
        signal.pause()
    try:
        signal.alarm(30)
        warm.end()
    finally:
        signal.alarm(0)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
