"""Becoming another user inside a real container, since a loopback box has one user only."""

from __future__ import annotations

import asyncio

import pytest

from backends import frame
from backends.remote.users import as_user

IMAGE = "debian:bookworm-slim"


async def answer(user: str | None, command: str) -> tuple[bytes, bytes]:
    request = frame.request(command, timeout=10, cwd="/", max_output=4096, env={"X": "kept"})
    ready = as_user(request, user)
    options = [f"--env={name}={value}" for name, value in ready.env.items()]
    process = await asyncio.create_subprocess_exec(
        "docker", "run", "--rm", *options, "--entrypoint", ready.argv[0], IMAGE, *ready.argv[1:],
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    try:
        return frame.parse(request, out, 0.0).stdout, err
    except frame.FrameError:
        return b"", err


@pytest.mark.docker
@pytest.mark.parametrize(
    ("user", "expected"), [("nobody", b"65534 kept"), ("1234", b"1234 kept"), ("root", b"0 kept"), (None, b"0 kept")]
)
async def test_a_command_runs_as_who_was_named_with_its_environment(user: str | None, expected: bytes) -> None:
    assert (await answer(user, 'printf %s "$(id -u) $X"'))[0] == expected


@pytest.mark.docker
async def test_a_user_that_does_not_exist_runs_nothing_and_is_named() -> None:
    out, err = await answer("nosuchuser", "echo ran")
    assert out == b""
    assert b"nosuchuser" in err
