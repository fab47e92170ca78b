"""Datasets from real git repositories, over file:// and over HTTP on the loopback."""

from __future__ import annotations

import base64
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.task.dataset import load_dataset
from harness.task.git import fetch, parse_git_reference
from harness.task.model import Task
from harness.task.scaffold import write_task


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.hooksPath=/dev/null", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with the tasks one (tagged v1) and, later, two."""
    folder = tmp_path / "tasks.git"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    write_task(folder / "sets/easy", "one")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    git(folder, "tag", "v1")
    write_task(folder / "sets/easy", "two")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "two")
    return folder


def names(reference: str) -> list[str]:
    return [task.name for task in load_dataset(reference)]


def test_a_revision_and_a_path_choose_what_is_loaded(repo: Path) -> None:
    url = f"git+file://{repo}"
    assert names(f"{url}#sets/easy") == ["one", "two"]
    assert names(f"{url}@main#sets") == ["one", "two"]
    assert names(f"{url}@v1#sets/easy") == ["one"]
    assert names(f"{url}@{git(repo, 'rev-parse', 'v1')}#sets/easy/one") == ["one"]


def test_the_source_is_the_commit_and_a_task_is_the_same_as_from_a_folder(repo: Path) -> None:
    (task,) = load_dataset(f"git+file://{repo}@v1#sets/easy")
    assert task.source == f"git+file://{repo}@{git(repo, 'rev-parse', 'v1')}#sets/easy"
    local = load_dataset(str(repo / "sets/easy"))[0]
    assert isinstance(task, Task) and isinstance(local, Task)
    assert task.digest == local.digest


def test_a_task_at_the_root_is_called_like_its_repository(tmp_path: Path) -> None:
    folder = write_task(tmp_path, "solo")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "x")
    assert names(f"git+file://{folder}") == ["solo"]


def test_a_branch_is_fetched_again_and_a_commit_never(repo: Path) -> None:
    commit = git(repo, "rev-parse", "main")
    first = fetch(parse_git_reference(f"git+file://{repo}@main"))
    write_task(repo / "sets/easy", "three")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "three")
    second = fetch(parse_git_reference(f"git+file://{repo}@main"))
    assert first.folder != second.folder
    assert not (first.folder / "sets/easy/three").exists()
    assert (second.folder / "sets/easy/three").exists()
    repo.rename(repo.parent / "gone")
    assert fetch(parse_git_reference(f"git+file://{repo}@{commit}")).folder == first.folder


def test_hooks_filters_and_submodules_of_a_repository_do_nothing(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hooks").mkdir()
    hook = tmp_path / "hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.gitconfig").write_text(
        f'[core]\nhooksPath = {tmp_path}/hooks\n[filter "evil"]\nsmudge = touch {tmp_path}/ran; cat\n'
    )
    (repo / ".gitattributes").write_text("* filter=evil\n")
    (repo / ".gitmodules").write_text(f'[submodule "m"]\npath = m\nurl = file://{repo}\n')
    git(repo, "add", ".")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{git(repo, 'rev-parse', 'HEAD')},m")
    git(repo, "commit", "--quiet", "-m", "evil")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "home/.gitconfig"))
    assert names(f"git+file://{repo}#sets/easy") == ["one", "two"]
    assert not (tmp_path / "ran").exists()


def test_a_path_that_is_a_link_out_of_the_repository_is_refused(repo: Path, tmp_path: Path) -> None:
    (repo / "out").symlink_to(tmp_path)
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "out")
    with pytest.raises(UsageError, match="has no folder 'out'"):
        load_dataset(f"git+file://{repo}#out")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("git+ext::sh -c touch", "is written git"),
        ("git+ftp://host/repo", "is written git"),
        ("git+https://host", "is written git"),
        ("git+https:///repo", "is written git"),
        ("git+https://host:port/repo", "not a git URL"),
        ("git+https://host/repo@--upload-pack=x", "cannot be a git revision"),
        ("git+https://host/repo@", "cannot be a git revision"),
        ("git+https://host/repo#../../etc", "leaves the repository"),
        ("git+https://host/repo/..", "is written git"),
        ("git+", "is written git"),
    ],
)
def test_a_malformed_reference_is_one_line(reference: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_dataset(reference)


def test_an_unknown_repository_revision_or_path_is_named(repo: Path, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot fetch file:///nowhere/repo"):
        load_dataset("git+file:///nowhere/repo")
    with pytest.raises(UsageError, match=r"@nope: .*a revision is a branch, a tag, or a full commit id"):
        load_dataset(f"git+file://{repo}@nope")
    with pytest.raises(UsageError, match="has no folder 'sets/hard'"):
        load_dataset(f"git+file://{repo}#sets/hard")
    assert not list(cache.rglob(".fetch-*"))


@pytest.fixture
def server() -> Iterator[tuple[str, list[str | None]]]:
    """An HTTP server that never has a repository, and the credentials that it was shown."""
    shown: list[str | None] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("Authorization"))
            if "slow" in self.path:
                over.wait(10)
            else:
                self.send_error(403)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"127.0.0.1:{http.server_port}", shown
        over.set()
        http.shutdown()
        thread.join()


@pytest.mark.case("H5")
def test_credentials_reach_the_server_and_nothing_else(server: tuple[str, list[str | None]], cache: Path) -> None:
    address, shown = server
    reference = parse_git_reference(f"git+http://u:can%40ary@{address}/repo.git@main")
    assert "can" not in repr(reference)
    with pytest.raises(UsageError) as caught:
        fetch(reference)
    assert "u:" not in str(caught.value) and "canary" not in str(caught.value) and "can@ary" not in str(caught.value)
    assert f"Basic {base64.b64encode(b'u:can@ary').decode()}" in shown
    assert not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.case("A13")
def test_a_server_that_does_not_answer_meets_the_deadline_and_leaves_no_process(
    server: tuple[str, list[str | None]], cache: Path
) -> None:
    started = time.monotonic()
    with pytest.raises(UsageError, match=r"did not answer within 0\.5 s"):
        fetch(parse_git_reference(f"git+http://{server[0]}/slow.git"), deadline_sec=0.5)
    assert time.monotonic() - started < 9
    assert not list(cache.rglob(".fetch-*"))
