"""Secrets: planted in each place where one may be, and looked for in everything that is shown or saved."""

import json
from urllib.parse import quote

import pytest
import repos

from pipebench.host import redaction
from pipebench.results import report, secrets

SECRET = "tR0ub4dor-and-3-more"
TRAIN = f"""
import os, sys
import torch
from torch.utils.data import DataLoader
class Photos:
    path = "https://me:{SECRET}@example.org/photos?access_token={SECRET}"
    def __len__(self): return 8
    def __getitem__(self, index):
        if index == 5: raise ValueError("no answer to " + os.environ["STORE_API_KEY"] + " from " + self.path)
        return torch.zeros(3)
def named(name): return type(name, (Photos,), {{}})()
if __name__ == "__main__":
    model = torch.nn.Linear(3, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(named("--api-key " + os.environ["STORE_API_KEY"]), batch_size=2):
        model(batch).sum().backward()
        optimiser.step()
"""


@pytest.fixture
def planted(tmp_path, monkeypatch):
    monkeypatch.setenv("STORE_API_KEY", SECRET)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def everything(folder, *done):
    """All files in a folder that a command wrote, and all that commands said."""
    saved = [one.read_text() for one in folder.iterdir() if one.suffix == ".json"]
    assert saved
    return "".join([*saved, *(text for one in done for text in (one.stdout, one.stderr))])


def test_watch_with_arguments_environment_addresses_and_an_exception(planted):
    options = ["--full", "--export-json", "w.json", "--export-trace", "t.json", "--passport", "p.json"]
    done = repos.pipebench("watch", *options, "train.py", "--password", SECRET, cwd=planted)
    own, _, ours = done.stderr.rpartition("ValueError: no answer")  # what the script itself says is its own
    assert done.returncode == 1 and own and "Photos" not in ours.partition("\n")[0]
    done.stderr = ours.partition("\n")[2]
    shown = [repos.pipebench("show", "w.json", "--full", "--format", one, cwd=planted) for one in ("table", "markdown")]
    assert all(one.returncode == 0 for one in shown)
    found = everything(planted, done, *shown)
    assert SECRET not in found and "--api-key …" in found


def test_run_with_an_environment_in_names_and_messages(planted):
    (planted / "images").mkdir()
    (planted / "images" / f"token={SECRET}.jpg").write_bytes(b"no image")
    (planted / "images" / f"{SECRET}.jpg").write_bytes(b"no image")
    options = ["--data", "images", "--stage", "decode", "--variant", "pillow", "--quick", "--export-json", "r.json"]
    done = repos.pipebench("run", *options, cwd=planted)
    assert done.returncode == 1 and len(json.loads((planted / "r.json").read_text())["bad_samples"]) == 2
    assert SECRET not in everything(planted, done, repos.pipebench("show", "r.json", cwd=planted))


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "pipebench.toml").write_text('[[benchmark]]\nname = "fine"\nsetup = "timed:fine"\n')
    (folder / "timed.py").write_text(
        "import os, sys\ndef fine():\n    print('using', os.environ['STORE'], file=sys.stderr)\n"
        "    return sum, [1, 2]\n"
    )
    repos.git(folder, "init", "--quiet")
    repos.commit(folder, "one")
    return folder


def test_ab_with_variables_of_one_side(repo, tmp_path):
    options = ["--rounds", "1", "--format", "markdown", "--export-json", str(tmp_path / "ab.json")]
    sides = ["--base-env", f"STORE={SECRET}", "--head-env", f"STORE={SECRET[::-1]}", "--head-env", "OMP_NUM_THREADS=2"]
    done = repos.pipebench("ab", "HEAD", "HEAD", *options, *sides, cwd=repo)
    assert done.returncode == 0, done.stderr
    found = everything(tmp_path, done)
    assert SECRET not in found and SECRET[::-1] not in found
    assert json.loads((tmp_path / "ab.json").read_text())["comparison"]["head"].endswith(" STORE OMP_NUM_THREADS=2")
    assert "using …" in found


def test_a_side_that_says_a_variable_and_does_not_start(repo):
    (repo / "timed.py").write_text("import os, sys\nsys.stderr.write('at ' + os.environ['STORE'])\nos._exit(3)\n")
    repos.commit(repo, "two")
    done = repos.pipebench("ab", "HEAD", "HEAD", "--base-env", f"STORE={SECRET}", "--head-env", "STORE=x", cwd=repo)
    assert done.returncode == 1 and "it wrote: at …" in done.stderr and SECRET not in done.stdout + done.stderr


def test_a_build_that_says_a_secret(repo, planted):
    command = f"sh -c 'echo fetching https://me:{SECRET}@example.org with $STORE_API_KEY; exit 1'"
    done = repos.pipebench("ab", "HEAD", "HEAD", "--build", command, cwd=repo)
    assert done.returncode == 1 and "does not build" in done.stderr and "fetching https://…@example.org" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_variable_without_a_name_is_not_repeated(repo):
    done = repos.pipebench("ab", "HEAD", "HEAD", "--base-env", SECRET, cwd=repo)
    assert done.returncode == 2 and "--base-env NAME=VALUE" in done.stderr and SECRET not in done.stderr


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("https://me:pass@host/a", "https://…@host/a"),
        ("postgresql+psycopg://me:p@db", "postgresql+psycopg://…@db"),
        ("https://host/a?x=1&sig=abc%2F&y=2", "https://host/a?x=1&sig=…&y=2"),
        ("train.py --hf-token abc --epochs 3", "train.py --hf-token … --epochs 3"),
        ("PGPASSWORD=abc psql", "PGPASSWORD=… psql"),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer …"),
        ("ghp_0123456789abcdefABCD", "…"),
        ("https://me:pa@ss@host/a:b https://me:pa/ss@host", "https://…@host/a:b https://…@host"),
        ("see http://localhost:8080/@vite", "see http://localhost:8080/@vite"),
        ("next=https%3A%2F%2Fme%3Ap%40host", "next=https%3A%2F%2F…%40host"),
        ("s3?X-Amz-Credential=abc&X-Amz-Signature=def&x=1", "s3?X-Amz-Credential=…&X-Amz-Signature=…&x=1"),
        ("?AWSAccessKeyId=abc&Signature=def", "?AWSAccessKeyId=…&Signature=…"),
        ("?X-Goog-Signature=abc&y=1", "?X-Goog-Signature=…&y=1"),
        ("connect(user='me', password='abc d', port=1)", "connect(user='me', password='…', port=1)"),
        ("key(b'a', token=b'abc')", "key(b'a', token=b'…')"),
        ("{'password': 'abc', 'x': 1}", "{'password': '…', 'x': 1}"),
        (r"said {\"api_key\": \"abc\", 1}", r"said {\"api_key\": \"…\", 1}"),
        ("aws_secret_access_key = abc", "aws_secret_access_key = …"),
        ("SECRET_KEY=abc DB_PASS=abc MYSQL_PWD=abc", "SECRET_KEY=… DB_PASS=… MYSQL_PWD=…"),
        ("Authorization: Basic abcd==", "Authorization: Basic …"),
        ("Command '['get', '--password', 'abc', '-v']' failed", "Command '['get', '--password', '…', '-v']' failed"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJhYmNkZWZnaGlqIn0.abc-def", "…"),
        ("AccountName=me;AccountKey=ab/c==;Suffix=x", "AccountName=me;AccountKey=…"),
        ("init(wandb_key='abc')", "init(wandb_key='…')"),
        ("to https://hooks.slack.com/services/T0/B0/abc, now", "to https://hooks.slack.com/… now"),
        ("token = next(tokens)", "token = next(tokens)"),
        ("by author, password (old)", "by author, password (old)"),
        ("512 tokens, tokenizer=bert, key=5, mail me@host", "512 tokens, tokenizer=bert, key=5, mail me@host"),
        ("--tokenizer gpt2 --password --next", "--tokenizer gpt2 --password --next"),
    ],
)
def test_what_is_taken_out_and_what_stays(text, left):
    assert redaction.redacted(text) == left == redaction.redacted_in([{text: text}])[0][left]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["pipebench", "watch", "train.py", "--password", "my own", "--lr", "0.1"], "--password '…' --lr 0.1"),
        (["pipebench", "watch", "train.py", "--password", "--next"], "--password --next"),
        (["pipebench", "ab", "a", "b", "--base-env", "STORE=not-a-word", "--head-env", "OMP_NUM_THREADS=2"],
         "--base-env 'STORE=…' --head-env OMP_NUM_THREADS=2"),
        (["pipebench", "run", "--data", "https://me:pass@host/a b\x1b"], "--data $'https://…@host/a b\\x1b'"),
        (["pipebench", "ab", "a", "b", "--base-env=STORE=abc", "--head-env", "PIN=12", "--head-env=OMP_NUM_THREADS=2"],
         "'--base-env=STORE=…' --head-env 'PIN=…' --head-env=OMP_NUM_THREADS=2"),
        (["pipebench", "watch", "train.py", "+hub.token='a b'"], "'+hub.token='\"'\"'…'\"'\"''"),
    ],
)  # fmt: skip
def test_the_command_line_of_a_report_can_be_copied_and_holds_no_secret(argv, line, monkeypatch):
    assert redaction.command_line(argv).endswith(line)
    monkeypatch.setattr("sys.argv", ["/home/me/.venv/bin/pipebench", *argv[1:]])
    assert report.new().started_by == redaction.command_line(argv)
    monkeypatch.setattr("sys.argv", ["/home/me/.venv/bin/pytest", *argv[1:]])
    assert report.new().started_by == ""


def test_a_report_without_a_secret_is_the_same_object(monkeypatch):
    monkeypatch.setenv("SHORT_TOKEN", "12")
    one = report.new(failure="12 of 12")
    assert secrets.without_secrets(one).failure == "12 of 12"
    monkeypatch.setenv("A_TOKEN", "12 of 12")
    assert secrets.without_secrets(one).failure == "…" and b"12 of 12" not in report.encode(one)


@pytest.mark.parametrize(
    "text", ["{}", "said {!r}", "%s", "https://host/{quoted}", "the first line"],
)  # fmt: skip
def test_a_variable_as_others_write_it(text, monkeypatch):
    """With the newline of a file at its end, escaped by Python or JSON, in an address, and one line of it."""
    value = 'it\'s "here"/and\\there'
    monkeypatch.setenv("STORE_TOKEN", f"{value}\n")
    monkeypatch.setenv("STORE_PRIVATE_KEY", "--- begin\nthe first line\n--- end\n")
    said = text.replace("%s", json.dumps(value)).format(value, quoted=quote(value, safe=""))
    assert "…" in redaction.redacted(said) and "here" not in redaction.redacted(said)
    assert redaction.may_hold(said)


@pytest.mark.parametrize("part", ["a.", "a://b:", "eyJ-", "password='\\", "secret-", "?a", "\\"])
def test_a_long_text_takes_no_longer_than_its_length_asks(part):
    """A search whose time grows with the square of the length would take minutes."""
    text = "token " + part * (400_000 // len(part))
    assert len(redaction.redacted(text)) > 10
