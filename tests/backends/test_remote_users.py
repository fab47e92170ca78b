"""Becoming another user inside a sandbox whose own user is root: the real tools, run by real root."""

from __future__ import annotations

import subprocess

import pytest

from backends.frame import Request
from backends.remote.users import as_user

pytestmark = pytest.mark.root


def run(user: str | None, script: str, *, path: str = "/usr/bin:/bin:/usr/sbin", **env: str) -> str:
    request = as_user(Request(argv=("/bin/sh", "-c", script), env=env, limit=1 << 16), user)
    done = subprocess.run(
        request.argv, env={"PATH": path, "HOME": "/root", **env}, cwd="/", capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("user", "expected"), [("nobody", "nobody"), ("65534", "nobody"), ("0", "root"), (None, "root")]
)
def test_a_name_or_a_number_is_who_it_runs_as(user: str | None, expected: str) -> None:
    assert run(user, "id -un") == expected


def test_a_number_without_an_entry_has_itself_as_its_only_group() -> None:
    assert run("4242", "id -u; id -G").split() == ["4242", "4242"]


def test_the_environment_is_kept_and_home_is_the_users_own_unless_named() -> None:
    assert run("nobody", 'echo "$X $HOME"', X="a b") == "a b /nonexistent"
    assert run("nobody", 'echo "$HOME"', HOME="/elsewhere") == "/elsewhere"
    assert run(None, 'echo "$HOME"') == "/root"


def test_an_unknown_name_runs_nothing() -> None:
    assert run("no-such-user", "echo ran") == ""
