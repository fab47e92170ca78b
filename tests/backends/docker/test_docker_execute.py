"""Commands in a container: deadlines, floods, bytes, users, and what they leave running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from backends import Resources, SandboxError, SandboxUnavailable
from backends.docker.sandbox import DockerSandbox

pytestmark = pytest.mark.docker

Start = Callable[..., Awaitable[DockerSandbox]]

LIST = "for f in /proc/[0-9]*; do tr '\\0' ' ' <$f/cmdline; echo; done"


async def running(sandbox: DockerSandbox) -> str:
    return (await sandbox.execute(LIST, timeout=20)).output


async def test_streams_and_exit_code_are_told_apart(sandbox: DockerSandbox) -> None:
    response = await sandbox.execute("echo out; echo err >&2; exit 3", timeout=20)
    assert (response.stdout, response.stderr, response.exit_code) == (b"out\n", b"err\n", 3)
    assert (response.timed_out, response.oom, response.truncated) == (False, False, False)


@pytest.mark.case("A1")
@pytest.mark.parametrize(
    "command",
    [
        "sleep 611 & while :; do :; done",
        "(trap '' TERM; setsid nohup sleep 611 &) ; sleep 611",
        "trap '' TERM INT; for i in 1 2 3; do (trap '' TERM; sleep 611) & done; wait",
    ],
)
async def test_a_deadline_kills_everything_the_command_started(sandbox: DockerSandbox, command: str) -> None:
    begun = time.monotonic()
    response = await sandbox.execute(command, timeout=1)
    assert response.timed_out and response.exit_code is None and response.agent_exit_code == 124
    assert time.monotonic() - begun < 10
    left = await running(sandbox)
    assert "sleep 611" not in left and "while :;" not in left
    assert (await sandbox.execute("echo ok", timeout=20)).exit_code == 0


@pytest.mark.case("A1")
async def test_a_deadline_reaches_children_that_changed_their_user_and_session(sandbox: DockerSandbox) -> None:
    command = "su -s /bin/sh nobody -c 'setsid nohup sleep 612 >/dev/null 2>&1 &'; sleep 30"
    assert (await sandbox.execute(command, timeout=1)).timed_out
    assert "sleep 612" not in await running(sandbox)


@pytest.mark.case("A2")
async def test_a_deadline_keeps_what_was_printed(sandbox: DockerSandbox) -> None:
    response = await sandbox.execute("echo first; sleep 30", timeout=1)
    assert (response.stdout, response.timed_out, response.exit_code) == (b"first\n", True, None)


@pytest.mark.parametrize("code", [124, 137, 143])
async def test_a_commands_own_exit_code_is_never_taken_for_a_deadline(sandbox: DockerSandbox, code: int) -> None:
    response = await sandbox.execute(f"exit {code}", timeout=20)
    assert (response.exit_code, response.timed_out, response.oom) == (code, False, False)


@pytest.mark.case("A3")
async def test_streams_larger_than_a_pipe_arrive_whole(sandbox: DockerSandbox) -> None:
    command = "head -c 300000 /dev/zero | tr '\\0' e >&2; head -c 300000 /dev/zero | tr '\\0' o"
    response = await sandbox.execute(command, timeout=20)
    assert (response.stdout, response.stderr) == (b"o" * 300_000, b"e" * 300_000)


@pytest.mark.case("A4")
@pytest.mark.parametrize(
    ("command", "size", "cut"),
    [
        ("head -c 9999 /dev/zero", 9_999, False),
        ("head -c 10000 /dev/zero", 10_000, False),
        ("head -c 10001 /dev/zero", 10_001, True),
        ("perl -e 'print \"\\xc3\\xa9\" x 5001'", 10_002, True),
    ],
)
async def test_a_cut_is_told_and_falls_between_characters(
    sandbox: DockerSandbox, command: str, size: int, cut: bool
) -> None:
    response = await sandbox.execute(command, timeout=20, max_output=10_000)
    assert (response.stdout_size, response.truncated) == (size, cut)
    assert len(response.stdout) <= 10_000
    assert "\ufffd" not in response.output


@pytest.mark.slow
async def test_a_flood_is_counted_and_not_kept(start: Start) -> None:
    sandbox = await start(resources=Resources(memory_mb=64))
    response = await sandbox.execute("head -c 300000000 /dev/zero", timeout=60, max_output=1000)
    assert (len(response.stdout), response.stdout_size, response.oom) == (1000, 300_000_000, False)


@pytest.mark.case("A5")
async def test_bytes_that_are_no_text_survive(sandbox: DockerSandbox) -> None:
    response = await sandbox.execute(r"printf 'a\377b\300\n'", timeout=20)
    assert response.stdout == b"a\xffb\xc0\n"
    assert response.output == "a\ufffdb\ufffd"


@pytest.mark.case("A8")
async def test_an_oom_kill_is_told_from_an_ordinary_137(start: Start) -> None:
    sandbox = await start(resources=Resources(memory_mb=64))
    killed = await sandbox.execute("perl -e '$x = \"a\" x (300 * 1024 * 1024); print length $x'", timeout=30)
    assert (killed.exit_code, killed.oom) == (137, True)
    ordinary = await sandbox.execute("kill -9 $$", timeout=30)
    assert (ordinary.exit_code, ordinary.oom) == (137, False)


@pytest.mark.case("A12")
async def test_a_program_that_asks_gets_end_of_file(sandbox: DockerSandbox) -> None:
    begun = time.monotonic()
    assert (await sandbox.execute("read -r answer", timeout=20)).exit_code == 1
    assert time.monotonic() - begun < 15
    response = await sandbox.execute("while :; do read x || echo again; done", timeout=1, max_output=1000)
    assert response.timed_out and response.truncated and len(response.stdout) == 1000


async def test_a_background_child_neither_holds_the_call_nor_the_next_one_and_lives_on(sandbox: DockerSandbox) -> None:
    begun = time.monotonic()
    response = await sandbox.execute("(while :; do echo tick; sleep 0.1; done) & echo started", timeout=20)
    assert response.stdout.startswith(b"started\n") or b"started\n" in response.stdout
    await sandbox.execute("true", timeout=20)
    assert time.monotonic() - begun < 15
    await asyncio.sleep(0.5)
    assert "tick" in await running(sandbox) or "sleep 0.1" in await running(sandbox)


async def test_stdin_reaches_the_command_and_may_be_ignored(sandbox: DockerSandbox) -> None:
    data = bytes(range(256)) * 8192
    response = await sandbox.execute("cksum; cat", timeout=20, stdin=data)
    assert response.stdout.endswith(b" 2097152\n")
    assert (await sandbox.execute("true", timeout=20, stdin=data)).exit_code == 0


@pytest.mark.parametrize("stdin", [None, b"12345"])
async def test_a_command_may_be_longer_than_any_argument(sandbox: DockerSandbox, stdin: bytes | None) -> None:
    command = f": '{'x' * 3_000_000}'\nwc -c"
    response = await sandbox.execute(command, timeout=20, stdin=stdin)
    assert response.stdout == (b"5\n" if stdin else b"0\n")


async def test_environment_directory_and_user_are_the_callers(start: Start) -> None:
    sandbox = await start(env={"A": "spec", "B": "spec"})
    response = await sandbox.execute(
        'echo "$A $B $C"; pwd; id -un; env | grep -c HX_',
        timeout=20,
        env={"B": "call", "C": "x\ny"},
        cwd="/tmp",
        user="nobody",
    )
    assert response.stdout == b"spec call x\ny\n/tmp\nnobody\n0\n"


async def test_a_path_of_the_callers_own_breaks_nothing_but_the_command(sandbox: DockerSandbox) -> None:
    response = await sandbox.execute("echo $PATH; ls", timeout=20, env={"PATH": "/nowhere"})
    assert (response.stdout, response.exit_code) == (b"/nowhere\n", 127)


async def test_a_missing_directory_is_a_result_that_says_so(sandbox: DockerSandbox) -> None:
    response = await sandbox.execute("echo ran", timeout=20, cwd="/nope")
    assert (response.stdout, response.exit_code) == (b"", 126)
    assert b"/nope" in response.stderr


async def test_an_unknown_user_is_an_error_of_one_line(sandbox: DockerSandbox) -> None:
    with pytest.raises(SandboxError, match="nosuchuser"):
        await sandbox.execute("true", timeout=20, user="nosuchuser")
    assert await sandbox.is_alive()


async def test_a_command_that_kills_everything_is_its_own_failure(sandbox: DockerSandbox) -> None:
    assert (await sandbox.execute("kill -9 -1", timeout=20)).exit_code == 137
    assert (await sandbox.execute("echo ok", timeout=20)).stdout == b"ok\n"


async def test_pkill_by_command_line_does_not_hit_the_wrapper(sandbox: DockerSandbox) -> None:
    await sandbox.execute("sleep 613 &", timeout=20)
    killer = "for f in /proc/[0-9]*; do case $(tr '\\0' ' ' <$f/cmdline) in sleep\\ 613*) kill ${f#/proc/};; esac; done"
    assert (await sandbox.execute(killer, timeout=20)).exit_code == 0
    assert "sleep 613" not in (await running(sandbox)).replace(killer, "")


async def test_cancelling_kills_what_was_running(sandbox: DockerSandbox) -> None:
    task = asyncio.create_task(sandbox.execute("(setsid nohup sleep 614 &); sleep 614", timeout=60))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "sleep 614" not in await running(sandbox)
    captures = await sandbox.execute("ls /run/.harness | cut -d. -f1 | sort -u | wc -l", timeout=20)
    assert captures.stdout.strip() == b"1", "those of this very command"


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.06, 0.1])
async def test_cancelling_at_any_moment_leaves_nothing(sandbox: DockerSandbox, delay: float) -> None:
    task = asyncio.create_task(sandbox.execute("sleep 615", timeout=60))
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "sleep 615" not in await running(sandbox)


@pytest.mark.slow
async def test_forty_commands_run_at_once(sandbox: DockerSandbox) -> None:
    responses = await asyncio.gather(*(sandbox.execute(f"sleep 0.2; echo {n}", timeout=60) for n in range(40)))
    assert [response.stdout for response in responses] == [f"{n}\n".encode() for n in range(40)]


async def test_kill_processes_spares_only_the_sandbox_and_leaves_no_zombies(sandbox: DockerSandbox) -> None:
    await sandbox.execute("for i in $(seq 20); do (setsid nohup sleep 616 >/dev/null 2>&1 &); done", timeout=20)
    await sandbox.execute("su -s /bin/sh nobody -c '(sleep 616 &)'; sh -c '(exit 0) & exec true'", timeout=20)
    await sandbox.kill_processes()
    assert "sleep 616" not in await running(sandbox)
    zombies = "for f in /proc/[0-9]*/stat; do read -r _ _ state _ <$f; [ $state = Z ] && echo zombie; done; true"
    assert (await sandbox.execute(zombies, timeout=20)).stdout == b""


@pytest.mark.slow
async def test_kill_processes_ends_a_fork_bomb(start: Start) -> None:
    sandbox = await start(resources=Resources(pids=100))
    await sandbox.execute("b() { b | b & b; }; b >/dev/null 2>&1 &", timeout=2)
    await sandbox.kill_processes()
    assert (await sandbox.execute("echo ok", timeout=20)).stdout == b"ok\n"


async def test_a_dead_sandbox_is_an_error_and_never_a_result(sandbox: DockerSandbox) -> None:
    task = asyncio.create_task(sandbox.execute("sleep 60", timeout=60))
    await asyncio.sleep(0.5)
    await sandbox.stop()
    with pytest.raises(SandboxUnavailable):
        await task
    with pytest.raises(SandboxUnavailable):
        await sandbox.execute("true", timeout=20)
    assert not await sandbox.is_alive()
    await sandbox.stop()
