"""The framed wrapper, with the shells that images have: what goes in, what comes out, what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import ExecuteResponse, frame

SHELLS = [["sh"], ["bash", "--posix"], ["busybox", "sh"]]


@pytest.fixture(params=SHELLS, ids=[shell[0] for shell in SHELLS])
def shell(request: pytest.FixtureRequest) -> list[str]:
    if shutil.which(request.param[0]) is None:
        pytest.skip(f"no {request.param[0]} here")
    return list(request.param)


def run(
    shell: list[str], command: str, *, timeout: float = 10, cap: int = 1 << 20, **options: object
) -> ExecuteResponse:
    request = frame.request(command, timeout=timeout, cwd="/tmp", max_output=cap, **options)  # type: ignore[arg-type]
    done = subprocess.run(
        [*shell, *request.argv[1:]],
        env={"PATH": os.environ["PATH"], **request.env},
        input=request.stdin,
        capture_output=True,
        timeout=50,
        check=False,
    )
    response = frame.parse(request, done.stdout, 0.0)
    assert list(Path("/tmp").glob(f"{request.nonce}.*")) == []
    return response


def test_a_reply_carries_streams_code_and_sizes(shell: list[str]) -> None:
    response = run(shell, "echo out; echo err >&2; exit 3")
    assert (response.stdout, response.stderr, response.exit_code) == (b"out\n", b"err\n", 3)
    assert (response.stdout_size, response.stderr_size, response.timed_out) == (4, 4, False)


def test_a_killed_command_leaves_no_word_of_the_shell_in_its_stderr(shell: list[str]) -> None:
    response = run(shell, "kill -9 $$")
    assert (response.exit_code, response.stderr) == (137, b"")


def test_the_deadline_is_told_by_a_file_and_keeps_the_output(shell: list[str]) -> None:
    begun = time.monotonic()
    response = run(shell, "(trap '' TERM; setsid nohup sleep 40 &); echo first; sleep 40", timeout=0.5)
    assert (response.stdout, response.exit_code, response.timed_out) == (b"first\n", None, True)
    assert time.monotonic() - begun < 10


def test_a_child_in_the_background_keeps_its_pipe_and_loses_no_output(shell: list[str]) -> None:
    begun = time.monotonic()
    response = run(shell, "(echo early; sleep 8; echo late && echo wrote >&2) & echo main", cap=100)
    assert sorted(response.stdout.split()) == [b"early", b"main"]
    assert time.monotonic() - begun < 8


def test_a_long_command_and_its_stdin_share_one_pipe(shell: list[str]) -> None:
    response = run(shell, f": '{'x' * 200_000}'\ncat", stdin=b"\x00\xffend")
    assert response.stdout == b"\x00\xffend"


def test_nothing_of_the_wrapper_reaches_the_command(shell: list[str]) -> None:
    inherited = subprocess.run(["bash", "-c", "trap"], capture_output=True, check=True).stdout  # under nohup: HUP
    response = run(shell, "env | grep -c ^HX_; trap; echo $#")
    assert response.stdout == b"0\n" + inherited + b"0\n"


@given(
    stdout=st.binary(max_size=40), stderr=st.binary(max_size=40), code=st.integers(0, 255), more=st.integers(0, 10**12)
)
def test_any_bytes_come_back_as_they_were(stdout: bytes, stderr: bytes, code: int, more: int) -> None:
    request = frame.request("x", timeout=1, cwd="/", max_output=1000)
    mark = request.mark.encode()
    reply = mark + b"\n" + stdout + mark + stderr + mark + f" {code} 0 3 4 {more} 0\n".encode()
    response = frame.parse(request, reply, 1.0)
    assert (response.stdout, response.stderr, response.exit_code, response.oom) == (stdout, stderr, code, True)
    assert response.stdout_size == len(stdout)


@given(st.binary(max_size=200), st.integers(0, 120))
def test_a_reply_that_is_not_whole_is_an_error_and_never_a_result(noise: bytes, cut: int) -> None:
    request = frame.request("x", timeout=1, cwd="/", max_output=1000)
    mark = request.mark.encode()
    whole = mark + b"\nout" + mark + mark + b" 0 0 - - 0 0\n"
    for reply in (noise, whole[: min(cut, len(whole) - 1)], whole + noise.replace(b"\n", b"") + b"x"):
        with pytest.raises(frame.FrameError):
            frame.parse(request, reply, 1.0)


@pytest.mark.parametrize("env", [{"A=B": "x"}, {"": "x"}, {"A": "x\0y"}])
def test_what_no_process_can_be_given_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="environment"):
        frame.request("true", timeout=1, cwd="/", max_output=10, env=env)
    with pytest.raises(ValueError, match="NUL"):
        frame.request("a\0b", timeout=1, cwd="/", max_output=10)
