"""Datasets in git: `git+https://host/repo.git@revision#path`, each commit fetched once and never changed afterwards.

A repository is somebody else's: no hook, filter, submodule or configuration of it (or of this machine) runs.
Credentials in a URL reach git through its environment: neither argv, nor messages, nor records ever hold them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from harness.errors import UsageError

PREFIX = "git+"
SCHEMES = ("https", "http", "ssh", "file")
DEADLINE_SEC = 600.0
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class GitReference:
    """A place in a repository. `url` has no credentials; `login` is "user:password", if any."""

    url: str
    revision: str | None
    path: str
    login: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The repository's own name, which a task at its root takes over."""
        return self.url.rstrip("/").rpartition("/")[2].removesuffix(".git") or "repository"


@dataclass(frozen=True, slots=True)
class Checkout:
    """Files of one commit: the folder that was asked for, and a name for records."""

    folder: Path
    source: str


def parse_git_reference(reference: str) -> GitReference:
    """Take `git+SCHEME://host/repo@revision#path` apart. Raises UsageError, without repeating a password."""
    try:
        parts = urlsplit(reference.removeprefix(PREFIX))
        login, _, host = parts.netloc.rpartition("@")
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"not a git URL: {error}") from None
    place, separator, revision = parts.path.rpartition("@")
    if not separator:
        place, revision = parts.path, ""
    if (
        parts.scheme not in SCHEMES
        or not place.strip("/.")
        or ".." in place.split("/")
        or (not host and parts.scheme != "file")
    ):
        raise UsageError("a git dataset is written git+https://host/repo.git@revision#path")
    if revision.startswith("-") or not re.fullmatch(r"[\w./+-]*", revision) or (separator and not revision):
        raise UsageError(f"{revision[:80]!r} cannot be a git revision")
    path = unquote(parts.fragment).strip("/")
    if ".." in path.split("/") or "\0" in path:
        raise UsageError(f"the path {path[:80]!r} leaves the repository")
    if parts.scheme == "ssh" and login:
        login, host = "", f"{login.partition(':')[0]}@{host}"
    clean = urlunsplit((parts.scheme, host, place, "", ""))
    return GitReference(clean, revision or None, path, unquote(login) or None)


def fetch(reference: GitReference, deadline_sec: float = DEADLINE_SEC) -> Checkout:
    """The files of `reference`, from the cache where the revision is a full commit id that was fetched before.

    Raises UsageError if git is missing, fails, or needs longer than `deadline_sec` for any of its commands.
    """
    cache = _cache_root() / hashlib.sha256(reference.url.encode()).hexdigest()[:16]
    commit = reference.revision if reference.revision and COMMIT.fullmatch(reference.revision) else None
    if commit is None or not (cache / commit).is_dir():
        commit = _fetch_into(cache, reference, deadline_sec)
    root = (cache / commit / reference.name).resolve()
    folder = (root / reference.path).resolve()
    if not folder.is_relative_to(root) or not folder.is_dir():
        raise UsageError(f"{reference.url} has no folder {reference.path!r} at {commit[:12]}")
    fragment = f"#{reference.path}" if reference.path else ""
    return Checkout(folder, f"{PREFIX}{reference.url}@{commit}{fragment}")


def _fetch_into(cache: Path, reference: GitReference, deadline_sec: float) -> str:
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as temporary:
        tree = Path(temporary) / "tree"
        work = tree / reference.name
        work.mkdir(parents=True)
        git = _Git(work, reference, deadline_sec)
        git.run("init", "--quiet", "--template=")
        what = reference.revision or "HEAD"
        git.run("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", reference.url, what)
        commit = git.run("rev-parse", "FETCH_HEAD^{commit}").strip()
        git.run("checkout", "--quiet", "--detach", commit)
        shutil.rmtree(work / ".git")
        try:
            tree.rename(cache / commit)
        except OSError:
            if not (cache / commit).is_dir():  # otherwise someone else was faster with the same commit
                raise
    return commit


@dataclass(frozen=True, slots=True)
class _Git:
    work: Path
    reference: GitReference
    deadline_sec: float

    def run(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.work), *arguments]
        try:
            process = subprocess.Popen(  # noqa: S603 - a fixed program; its arguments were checked when parsed
                command,
                env=_environment(self.reference),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise UsageError("git is not installed, and the dataset is in a git repository") from None
        try:
            output, errors = process.communicate(timeout=self.deadline_sec)
        except subprocess.TimeoutExpired:
            message = f"{self.reference.url} did not answer within {self.deadline_sec:g} s"
            raise UsageError(message) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode != 0:
            raise UsageError(self._failure(errors.decode("utf-8", "replace")))
        return output.decode("utf-8", "replace")

    def _failure(self, errors: str) -> str:
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        reason = "".join(char for char in (lines[0] if lines else "no reason given") if char.isprintable())
        what = f"@{self.reference.revision}" if self.reference.revision else ""
        hint = " (a revision is a branch, a tag, or a full commit id)" if what else ""
        return f"cannot fetch {self.reference.url}{what}: {reason[:200]}{hint}"


def _environment(reference: GitReference) -> dict[str, str]:
    settings = {
        "core.hooksPath": os.devnull,
        "core.fsmonitor": "false",
        "core.protectHFS": "true",
        "core.protectNTFS": "true",
        "credential.helper": "",
        "submodule.recurse": "false",
    }
    if reference.login is not None:
        login = base64.b64encode(reference.login.encode()).decode()
        settings[f"http.{reference.url}.extraHeader"] = f"Authorization: Basic {login}"
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key.startswith("GIT_SSL_")}
    env |= {
        "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        "LC_ALL": "C",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for number, (key, value) in enumerate(settings.items()):
        env[f"GIT_CONFIG_KEY_{number}"], env[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return env


def _cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "harness-rl" / "datasets"
