"""Runs a script as `python` would run it, and watches it. The supervisor's child process starts with this file.

python bootstrap.py SETTINGS SCRIPT [ARGS...]        SETTINGS: `record.recording.Settings`, encoded
python bootstrap.py SETTINGS -m MODULE [ARGS...]
"""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # this folder: the script must not import from it

import os

_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook")


def main() -> None:
    """Starts the recording, then runs the script. If pipebench fails, it prints one line and the script still runs."""
    settings = sys.argv[1]
    rest = sys.argv[2:]
    sys.orig_argv[:] = [sys.executable, *rest]
    try:
        _watch(settings)
    except Exception as error:
        sys.stderr.write(f"pipebench: the script is not watched ({type(error).__name__}: {error})\n")
    try:
        run(rest)
    except SystemExit:
        raise
    except BaseException:
        _hide_our_frames_once()
        raise


def _watch(settings: str) -> None:
    import atexit

    sys.path.insert(0, _HOOK)
    try:
        from pipebench_hook import OwnPackage  # type: ignore[import-not-found]
    finally:
        sys.path.remove(_HOOK)
    del sys.modules["pipebench_hook"]
    with OwnPackage():
        from pipebench.watch.launch.watched_script import WatchedScript
        from pipebench.watch.record.recording import Settings
    watched = WatchedScript(Settings.decoded(settings))
    atexit.register(watched.finish, exiting=True)
    watched.start()


def run(rest: list[str]) -> None:
    """Runs `rest` as `__main__`: a script, or `-m` and a module, and its arguments."""
    import runpy
    import types

    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=sys.modules["builtins"])
    if sys.version_info < (3, 14):  # later ones make it when somebody asks
        module.__dict__.update(__annotations__={})
    sys.modules["__main__"] = module
    if "__mp_main__" in sys.modules:  # pipebench imports multiprocessing, which has set it to this file
        sys.modules["__mp_main__"] = module
    if rest[0] == "-m":
        sys.argv[:] = ["-m", *rest[2:]]
        _prepend(os.getcwd())
        runpy._run_module_as_main(rest[1])  # type: ignore[attr-defined]  # what `python -m` calls
        return
    script = rest[0]
    sys.argv[:] = rest
    if os.path.isdir(script) or _is_archive(script):
        sys.path.insert(0, script)
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]  # as `python folder` does
        return
    _prepend(os.path.dirname(os.path.realpath(script)))
    _run_file(script, module)


def _prepend(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def _is_archive(script: str) -> bool:
    import pkgutil

    importer = pkgutil.get_importer(script)
    return importer is not None and type(importer).__name__ == "zipimporter"


def _run_file(script: str, module: object) -> None:
    from importlib.machinery import SourceFileLoader, SourcelessFileLoader

    path = os.path.abspath(script)
    names = vars(module)
    compiled = path.endswith(".pyc")
    loader = (SourcelessFileLoader if compiled else SourceFileLoader)("__main__", path)
    names.update(__file__=path, __loader__=loader, __cached__=None)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        sys.stderr.write(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}\n")
        sys.exit(2)
    code = loader.get_code("__main__") if compiled else compile(source, path, "exec", dont_inherit=True)
    assert code is not None
    exec(code, names)


def _hide_our_frames_once() -> None:
    """Removes our frames from the script's uncaught exception. The hook that the script has set then prints it."""
    try:
        from pipebench.watch.record.patches import without_our_frames
    except ImportError:
        return
    hook = sys.excepthook

    def excepthook(kind: object, error: BaseException, traceback: object) -> None:
        sys.excepthook = hook
        without_our_frames(error)
        hook(type(error), error, error.__traceback__)

    sys.excepthook = excepthook


if __name__ == "__main__":
    main()
