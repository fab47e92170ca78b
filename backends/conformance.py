"""What every backend must do, as checks that run against any provider: ours, and those of plugin authors.

    results = await run_checks(provider, make_spec)

`make_spec(**overrides)` gives a fresh SandboxSpec whose image has sh and coreutils (or busybox) and whose workdir is
`/app`. A check that asks for what the provider's capabilities deny raises NotApplicable; any other exception is a
failure. Under pytest, parametrise over `CHECKS`.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.errors import SandboxError, SandboxUnavailable
from backends.lifecycle import OWNER, open_sandbox, owner_label
from backends.protocol import SandboxBackendProtocol, SandboxProvider
from backends.spec import NetworkMode, SandboxSpec

SpecFactory = Callable[..., SandboxSpec]
Check = Callable[[SandboxProvider, SpecFactory], Awaitable[None]]

CHECKS: dict[str, Check] = {}
"""Every check by name, in order."""


class NotApplicable(Exception):
    """The provider's capabilities say that it does not offer what this check is about."""


class Broken(AssertionError):
    """The backend does not do what the contract says."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How one check ended: `error` is None if it passed, `skipped` says why it does not apply."""

    name: str
    error: BaseException | None
    skipped: str | None
    seconds: float


async def run_checks(
    provider: SandboxProvider, make_spec: SpecFactory, names: Iterable[str] | None = None
) -> list[CheckResult]:
    """Run the checks one after the other and say how each ended."""
    results = []
    for name in names if names is not None else list(CHECKS):
        began = time.monotonic()
        error: BaseException | None = None
        skipped = None
        try:
            await CHECKS[name](provider, make_spec)
        except NotApplicable as reason:
            skipped = str(reason)
        except Exception as failure:  # noqa: BLE001 - whatever a backend raises is this check's failure
            error = failure
        results.append(CheckResult(name, error, skipped, time.monotonic() - began))
    return results


def provider_check(function: Check) -> Check:
    """Register a check that starts its own sandboxes."""
    CHECKS[function.__name__] = function
    return function


def sandbox_check(function: Callable[[SandboxBackendProtocol], Awaitable[None]]) -> Check:
    """Register a check of one fresh sandbox."""

    async def check(provider: SandboxProvider, make_spec: SpecFactory) -> None:
        async with open_sandbox(provider, make_spec()) as sandbox:
            await function(sandbox)

    check.__name__ = function.__name__
    check.__doc__ = function.__doc__
    return provider_check(check)


def expect(actual: object, expected: object, what: str) -> None:
    """Raise Broken unless both are equal."""
    if actual != expected:
        raise Broken(f"{what}: expected {expected!r:.300}, got {actual!r:.300}")


async def expect_raises(kind: type[BaseException], work: Awaitable[object], what: str) -> None:
    """Raise Broken unless awaiting `work` raises `kind`."""
    try:
        result = await work
    except kind:
        return
    raise Broken(f"{what}: expected {kind.__name__}, got the result {result!r:.300}")


async def shell(sandbox: SandboxBackendProtocol, command: str, **options: Any) -> str:
    """Standard output of a command that must exit with 0."""
    response = await sandbox.execute(command, **{"timeout": 30.0, **options})
    expect(response.exit_code, 0, f"exit code of {command!r:.200} (stderr {response.stderr!r:.300})")
    return response.stdout.decode()


async def alive_sleeps(sandbox: SandboxBackendProtocol, seconds: str) -> int:
    """How many `sleep SECONDS` run in the sandbox."""
    return int(
        await shell(
            sandbox,
            "for f in /proc/[0-9]*/cmdline; do "
            f"{{ tr '\\0' ' ' <\"$f\"; }} 2>/dev/null | grep -q '^sleep {seconds} ' && echo x; done | wc -l",
        )
    )


# Commands


@sandbox_check
async def streams_are_separate_and_exact(sandbox: SandboxBackendProtocol) -> None:
    response = await sandbox.execute("printf out; printf err >&2; exit 3", timeout=10)
    expect((response.stdout, response.stderr, response.exit_code), (b"out", b"err", 3), "streams and exit code")
    expect((response.stdout_size, response.stderr_size), (3, 3), "sizes")
    expect((response.timed_out, response.truncated), (False, False), "flags")


@sandbox_check
async def both_streams_are_drained_at_once(sandbox: SandboxBackendProtocol) -> None:
    fill = "head -c 300000 /dev/zero | tr '\\0'"
    response = await sandbox.execute(f"{fill} e >&2; {fill} o; {fill} e >&2", timeout=20)
    expect((response.stdout, response.stdout_size), (b"o" * 300_000, 300_000), "stdout")
    expect((response.stderr, response.stderr_size), (b"e" * 600_000, 600_000), "stderr")


@sandbox_check
async def output_over_the_cap_is_cut_between_characters_and_counted(sandbox: SandboxBackendProtocol) -> None:
    for size, truncated in ((9_999, False), (10_000, False), (10_001, True)):
        response = await sandbox.execute(f"head -c {size} /dev/zero | tr '\\0' x", timeout=20, max_output=10_000)
        expect((len(response.stdout), response.stdout_size), (min(size, 10_000), size), f"{size} ASCII bytes")
        expect(response.truncated, truncated, f"truncated flag of {size} bytes")
    command = "i=0; while [ $i -lt 5001 ]; do printf '\\303\\251'; i=$((i + 1)); done"
    response = await sandbox.execute(command, timeout=20, max_output=9_999)
    expect((response.stdout_size, response.truncated), (10_002, True), "5001 two-byte characters")
    expect(response.stdout.decode("utf-8"), "é" * 4_999, "text cut at an odd byte")


@sandbox_check
async def output_that_is_not_utf8_is_kept_as_bytes(sandbox: SandboxBackendProtocol) -> None:
    response = await sandbox.execute("printf 'a\\377b\\300\\n'", timeout=10)
    expect(response.stdout, b"a\xffb\xc0\n", "bytes")
    expect(response.output, "a\ufffdb\ufffd", "text")


@sandbox_check
async def a_flood_is_capped_fast(sandbox: SandboxBackendProtocol) -> None:
    began = time.monotonic()
    response = await sandbox.execute("head -c 30000000 /dev/zero", timeout=30, max_output=1_000)
    expect((len(response.stdout), response.stdout_size), (1_000, 30_000_000), "kept and true size")
    expect(time.monotonic() - began < 10, True, "30 MB within 10 s")


@sandbox_check
async def environment_and_directory_are_as_asked(sandbox: SandboxBackendProtocol) -> None:
    tricky = "a b'c\"d$e\\f\ng"
    expect(await shell(sandbox, 'printf %s "$X"', env={"X": tricky}), tricky, "a variable's value")
    expect(await shell(sandbox, "pwd"), "/app\n", "default directory")
    expect(await shell(sandbox, "pwd", cwd="/tmp"), "/tmp\n", "absolute directory")
    await shell(sandbox, "mkdir -p sub")
    expect(await shell(sandbox, "pwd", cwd="sub"), "/app/sub\n", "relative directory")
    response = await sandbox.execute("echo ran", timeout=10, cwd="/nowhere")
    expect((response.stdout, response.exit_code), (b"", 126), "a missing directory")


@provider_check
async def the_spec_s_environment_reaches_every_command(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    os.environ["HARNESS_CONFORMANCE_SECRET"] = "1"
    try:
        async with open_sandbox(provider, make_spec(env={"FROM_SPEC": "x y"})) as sandbox:
            expect(await shell(sandbox, 'echo "$FROM_SPEC"'), "x y\n", "spec's variable")
            expect(await shell(sandbox, 'echo "$FROM_SPEC"', env={"FROM_SPEC": "z"}), "z\n", "command's variable")
            expect(await shell(sandbox, "env | grep -c HARNESS_CONF || true"), "0\n", "the harness's own variables")
    finally:
        del os.environ["HARNESS_CONFORMANCE_SECRET"]


@sandbox_check
async def standard_input_is_what_was_given_or_empty(sandbox: SandboxBackendProtocol) -> None:
    data = bytes(range(256)) * 4_000
    expect(await shell(sandbox, "wc -c | tr -d ' '", stdin=data), "1024000\n", "given input")
    expect(await shell(sandbox, "cat; echo end"), "end\n", "no input")
    response = await sandbox.execute("read line", timeout=10)
    expect((response.exit_code == 0, response.timed_out), (False, False), "reading where there is no input")


@sandbox_check
async def a_command_may_be_of_any_length(sandbox: SandboxBackendProtocol) -> None:
    expect(await shell(sandbox, f": {'x' * 300_000}\necho long"), "long\n", "a command of 300 kB")


@sandbox_check
async def sixteen_commands_run_at_once(sandbox: SandboxBackendProtocol) -> None:
    answers = await asyncio.gather(*(shell(sandbox, f"sleep 0.2; echo {n}") for n in range(16)))
    expect(answers, [f"{n}\n" for n in range(16)], "answers")


@provider_check
async def another_user_runs_commands_where_users_are_offered(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    if not provider.capabilities.users:
        raise NotApplicable("the backend has one user")
    async with open_sandbox(provider, make_spec()) as sandbox:
        expect(await shell(sandbox, "id -un", user="nobody"), "nobody\n", "user")


# Deadlines, cancellation and processes


@sandbox_check
async def a_deadline_keeps_partial_output_and_has_no_exit_code(sandbox: SandboxBackendProtocol) -> None:
    began = time.monotonic()
    response = await sandbox.execute("echo first; sleep 30", timeout=1)
    expect((response.stdout, response.exit_code, response.timed_out), (b"first\n", None, True), "the response")
    expect(response.agent_exit_code, 124, "code shown to agents")
    expect(time.monotonic() - began < 11, True, "back within ten seconds of the deadline")


@sandbox_check
async def a_deadline_kills_the_whole_tree(sandbox: SandboxBackendProtocol) -> None:
    await shell(sandbox, "sleep 8640.25 >/dev/null 2>&1 &")
    command = (
        "sleep 8641.25 & setsid sleep 8641.25 & nohup sleep 8641.25 >/dev/null 2>&1 & "
        "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 8641.25; :' &) ; "
        "sh -c 'trap \"\" TERM; while :; do :; done'"
    )
    response = await sandbox.execute(command, timeout=1)
    expect((response.timed_out, response.exit_code), (True, None), "the response")
    expect(await alive_sleeps(sandbox, "8641.25"), 0, "survivors of the command")
    expect(await alive_sleeps(sandbox, "8640.25"), 1, "an earlier command's background child")
    expect(await shell(sandbox, "echo ok"), "ok\n", "the sandbox afterwards")


@sandbox_check
async def an_endless_prompt_ends_at_its_deadline(sandbox: SandboxBackendProtocol) -> None:
    response = await sandbox.execute("while :; do read x || echo again; done", timeout=1, max_output=1_000)
    expect((response.timed_out, len(response.stdout) <= 1_000, response.truncated), (True, True, True), "the response")


@sandbox_check
async def exit_codes_of_the_command_are_its_own(sandbox: SandboxBackendProtocol) -> None:
    for code in (124, 125, 137, 143):
        response = await sandbox.execute(f"exit {code}", timeout=10)
        expect((response.exit_code, response.timed_out), (code, False), f"exit {code}")
        expect(response.oom is True, False, f"oom of exit {code}")


@sandbox_check
async def a_command_that_kills_itself_reports_the_signal(sandbox: SandboxBackendProtocol) -> None:
    response = await sandbox.execute("kill -9 $$", timeout=10)
    expect((response.exit_code, response.timed_out, response.oom is True), (137, False, False), "the response")


@sandbox_check
async def background_children_do_not_hold_the_call_and_live_on(sandbox: SandboxBackendProtocol) -> None:
    began = time.monotonic()
    expect(await shell(sandbox, "sleep 8642.25 & (setsid sleep 8643.25 &); echo started"), "started\n", "output")
    expect(time.monotonic() - began < 5, True, "the call came back")
    await shell(sandbox, "(while :; do echo tick; sleep 0.05; done) &")
    await asyncio.sleep(0.3)
    expect(await alive_sleeps(sandbox, "8642.25"), 1, "the child")
    expect(await alive_sleeps(sandbox, "8643.25"), 1, "the child in a session of its own")
    expect(await alive_sleeps(sandbox, "0.05") <= 1, True, "the writer")


@sandbox_check
async def kill_processes_leaves_nothing_and_keeps_the_sandbox(sandbox: SandboxBackendProtocol) -> None:
    await shell(sandbox, "echo kept >kept; sleep 8644.25 & setsid sleep 8644.25 & setsid nohup sleep 8644.25 &")
    await shell(sandbox, "setsid sh -c 'trap \"\" TERM; while :; do sleep 8644.25 & sleep 0.02; done' &")
    await asyncio.sleep(0.3)
    await sandbox.kill_processes()
    await asyncio.sleep(0.2)
    expect(await alive_sleeps(sandbox, "8644.25"), 0, "survivors")
    expect(await sandbox.is_alive(), True, "the sandbox is alive")
    expect(await shell(sandbox, "cat kept"), "kept\n", "files")


@sandbox_check
async def cancelling_a_command_kills_what_it_started(sandbox: SandboxBackendProtocol) -> None:
    task = asyncio.create_task(sandbox.execute("sleep 8645.25 & setsid sleep 8645.25 & sleep 8645.25", timeout=60))
    for _ in range(100):
        if await alive_sleeps(sandbox, "8645.25") == 3:
            break
        await asyncio.sleep(0.05)
    else:
        raise Broken("the command did not start")
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    expect(task.cancelled(), True, "the call was cancelled")
    expect(await alive_sleeps(sandbox, "8645.25"), 0, "survivors")


# Files


@sandbox_check
async def binary_files_make_the_round_trip(sandbox: SandboxBackendProtocol) -> None:
    for name, data in (("mega", os.urandom(1 << 20)), ("empty", b""), ("odd", b"\xff\x00\xc0"), ("deep/er/x", b"x")):
        await sandbox.write(name, data)
        expect(await sandbox.read(name), data, f"content of {name}")
    await sandbox.write("/tmp/run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
    expect(await shell(sandbox, "/tmp/run.sh"), "ran\n", "an executable file")
    await sandbox.write("mega", b"short")
    expect(await sandbox.read("mega"), b"short", "a replaced file")
    expect(await sandbox.read("mega", max_bytes=2), b"sh", "a read of at most two bytes")


@sandbox_check
async def file_errors_are_the_builtin_ones(sandbox: SandboxBackendProtocol) -> None:
    await sandbox.write("file", b"x")
    await expect_raises(FileNotFoundError, sandbox.read("missing"), "read of nothing")
    await expect_raises(IsADirectoryError, sandbox.read("/app"), "read of a directory")
    await expect_raises(IsADirectoryError, sandbox.write("/app", b""), "write to a directory")
    await expect_raises(NotADirectoryError, sandbox.read("file/x"), "read below a file")
    await expect_raises(NotADirectoryError, sandbox.write("file/x", b""), "write below a file")
    await expect_raises(FileNotFoundError, sandbox.ls("missing"), "listing of nothing")
    await expect_raises(NotADirectoryError, sandbox.ls("file"), "listing of a file")
    await expect_raises(FileNotFoundError, sandbox.grep("x", "missing"), "grep in nothing")
    await expect_raises(FileNotFoundError, sandbox.glob("*", "missing"), "glob in nothing")
    with tempfile.TemporaryDirectory() as folder:
        await expect_raises(FileNotFoundError, sandbox.download("missing", Path(folder, "x")), "download of nothing")


@sandbox_check
async def edit_replaces_what_is_unique(sandbox: SandboxBackendProtocol) -> None:
    await sandbox.write("f.txt", "eins é zwei zwei\n".encode(), mode=0o640)
    expect(await sandbox.edit("f.txt", "é", "ü\n'\"$"), 1, "one replacement")
    await expect_raises(ValueError, sandbox.edit("f.txt", "drei", "x"), "absent text")
    await expect_raises(ValueError, sandbox.edit("f.txt", "zwei", "x"), "text that is not unique")
    expect(await sandbox.edit("f.txt", "zwei", "2", replace_all=True), 2, "all replacements")
    expect((await sandbox.read("f.txt")).decode(), "eins ü\n'\"$ 2 2\n", "content")
    expect(await shell(sandbox, "stat -c %a f.txt"), "640\n", "mode")


HOSTILE_NAMES = ("-rf", "new\nline", "q'\"$(x)`", "é☃", "a:1:b", " space ")


@sandbox_check
async def listings_survive_hostile_names(sandbox: SandboxBackendProtocol) -> None:
    for name in HOSTILE_NAMES:
        await sandbox.write(f"/app/h/{name}", b"one\nneedle\n")
    await shell(sandbox, "mkdir h/dir; ln -s /etc h/link; mkfifo h/fifo")
    kinds = {"dir": "dir", "link": "link", "fifo": "other"}
    expected = sorted((f"/app/h/{name}", kinds.get(name, "file")) for name in (*HOSTILE_NAMES, *kinds))
    expect([(info.path, info.kind) for info in await sandbox.ls("h")], expected, "ls")
    expect({info.size for info in await sandbox.ls("h") if info.kind == "file"}, {11}, "sizes")
    found = [(match.path, match.line, match.text) for match in await sandbox.grep("need.e", "h")]
    expect(sorted(found), sorted((f"/app/h/{name}", 2, "needle") for name in HOSTILE_NAMES), "grep")
    globbed = [info.path for info in await sandbox.glob("**/*", "h") if info.kind == "file"]
    expect(globbed, sorted(f"/app/h/{name}" for name in HOSTILE_NAMES), "glob")


@sandbox_check
async def grep_and_glob_select(sandbox: SandboxBackendProtocol) -> None:
    for name in ("a.py", "b.txt", "sub/c.py", "sub/deep/d.py", ".hidden.py"):
        await sandbox.write(f"/app/g/{name}", b"x = 1\ny = 22\nx = 3\n")
    await sandbox.write("/app/g/binary.py", b"\0x = 1\0\n")

    async def globbed(pattern: str) -> list[str]:
        return [info.path.removeprefix("/app/g/") for info in await sandbox.glob(pattern, "g")]

    expect(await globbed("*.txt"), ["b.txt"], "*.txt")
    expect(await globbed("[ab].*"), ["a.py", "b.txt"], "[ab].*")
    expect(await globbed("sub/**/*.py"), ["sub/c.py", "sub/deep/d.py"], "sub/**/*.py")
    expect(await globbed("s?b/*"), ["sub/c.py"], "s?b/*")
    expect(len(await sandbox.glob("**", "g", max_matches=2)), 2, "max_matches of glob")
    matches = await sandbox.grep("^x = [0-9]+$", "g", include="c.*")
    expect([(match.line, match.text) for match in matches], [(1, "x = 1"), (3, "x = 3")], "grep with include")
    expect(len(await sandbox.grep("x", "g", max_matches=3)), 3, "max_matches of grep")
    expect(await sandbox.grep("no such text", "g"), [], "grep without a match")
    await expect_raises(ValueError, sandbox.grep("(", "g"), "a malformed expression")


@sandbox_check
async def folders_go_in_and_out_with_modes_and_links(sandbox: SandboxBackendProtocol) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, back = Path(folder, "source"), Path(folder, "back")
        (source / "sub").mkdir(parents=True)
        (source / "sub" / "run.sh").write_bytes(b"#!/bin/sh\necho hi\n")
        (source / "sub" / "run.sh").chmod(0o755)
        (source / "plain").write_bytes(b"\xff\x00")
        (source / "link").symlink_to("sub/run.sh")
        await sandbox.upload(source, "/opt/up")
        expect(await shell(sandbox, "/opt/up/link && stat -c %a /opt/up/sub/run.sh"), "hi\n755\n", "what arrived")
        expect(await sandbox.download("/opt/up", back), [], "what was dropped")
        expect((back / "plain").read_bytes(), b"\xff\x00", "a file that came back")
        expect((back / "sub" / "run.sh").stat().st_mode & 0o777, 0o755, "its mode")
        expect(os.readlink(back / "link"), "sub/run.sh", "a link that came back")  # noqa: PTH115
        await sandbox.upload(source / "plain", "/opt/single/renamed")
        await sandbox.download("/opt/single/renamed", Path(folder, "one"))
        expect(Path(folder, "one").read_bytes(), b"\xff\x00", "a single file")


@sandbox_check
async def links_that_leave_never_cross_the_boundary(sandbox: SandboxBackendProtocol) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, back = Path(folder, "source"), Path(folder, "back")
        source.mkdir()
        (source / "secret").symlink_to("/etc/hostname")
        await expect_raises(ValueError, sandbox.upload(source, "/opt/up"), "upload of a link that leaves")
        await shell(
            sandbox,
            "mkdir -p out/sub; cd out; echo x >ok; ln -s ok in; ln -s /etc/passwd x; ln -s ../../../../etc d; "
            "ln -s .. sub/up; ln -s ../.. sub/out; mkfifo fifo; "
            "mkdir closed; chmod 500 closed; umask 077; echo s >private",
        )
        dropped = await sandbox.download("out", back)
        names = sorted(path.relative_to(back).as_posix() for path in back.rglob("*"))
        expect(names, ["closed", "in", "ok", "private", "sub", "sub/up"], "what came back")
        left_out = sorted(Path(name).name for name in dropped)
        expect(left_out, ["d", "fifo", "out", "x"], "what was dropped")
        for path in (back / "private", back / "closed"):
            expect(os.access(path, os.R_OK | os.W_OK), True, f"{path.name} is the caller's")


@sandbox_check
async def a_download_has_a_limit(sandbox: SandboxBackendProtocol) -> None:
    await shell(sandbox, "mkdir big; head -c 3000000 /dev/zero >big/zero")
    with tempfile.TemporaryDirectory() as folder:
        work = sandbox.download("big", Path(folder, "big"), max_bytes=1_000_000)
        await expect_raises(SandboxError, work, "download beyond max_bytes")


# The sandbox itself


@provider_check
async def directories_of_the_spec_exist_and_are_writable(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    async with open_sandbox(provider, make_spec(directories=("/logs/verifier", "/data/deep/er"))) as sandbox:
        await shell(sandbox, "echo 1 >/logs/verifier/x && echo 2 >/data/deep/er/x && echo 3 >/tmp/x && echo 4 >/app/x")


@provider_check
async def network_none_is_none(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    if NetworkMode.NONE not in provider.capabilities.networks:
        raise NotApplicable("the backend cannot close the network")
    async with open_sandbox(provider, make_spec(network=NetworkMode.NONE)) as sandbox:
        names = await shell(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort")
        up = [name for name in names.split() if name not in ("lo", "tunl0", "sit0", "gre0", "ip6tnl0")]
        expect(up, [], "interfaces beside lo")
        expect(await shell(sandbox, "tail -n +2 /proc/net/route"), "", "routes")


@provider_check
async def two_sandboxes_do_not_see_each_other(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    if provider.capabilities.isolation == "none":
        raise NotApplicable("the backend isolates nothing")
    async with open_sandbox(provider, make_spec()) as one, open_sandbox(provider, make_spec()) as two:
        await shell(one, "echo mine >/app/x; echo mine >/tmp/x; sleep 8646.25 &")
        expect(await shell(two, "ls /app /tmp | grep -c '^x$' || true"), "0\n", "the other's files")
        expect(await alive_sleeps(two, "8646.25"), 0, "the other's processes")
        await two.kill_processes()
        expect(await alive_sleeps(one, "8646.25"), 1, "processes of the one when the other kills all of its own")


@provider_check
async def the_time_to_live_ends_it(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    async with open_sandbox(provider, make_spec(ttl_sec=2.0)) as sandbox:
        await asyncio.sleep(1.0)
        await sandbox.renew()
        await asyncio.sleep(1.4)
        expect(await sandbox.is_alive(), True, "alive, renewed")
        for _ in range(60):
            if not await sandbox.is_alive():
                break
            await asyncio.sleep(0.1)
        expect(await sandbox.is_alive(), False, "ended by itself")
        await expect_raises(SandboxUnavailable, sandbox.execute("true", timeout=5), "a command after the end")


@provider_check
async def stop_is_idempotent_and_final(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    sandbox = await provider.start(make_spec())
    expect(await sandbox.is_alive(), True, "alive after start")
    await sandbox.stop()
    await sandbox.stop()
    expect(await sandbox.is_alive(), False, "alive after stop")
    await expect_raises(SandboxUnavailable, sandbox.execute("true", timeout=5), "a command after stop")
    await expect_raises(SandboxUnavailable, sandbox.read("x"), "a read after stop")


@provider_check
async def sandboxes_are_listed_by_label_and_removed_by_id(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    labels = {OWNER: owner_label(), "harness.conformance": os.urandom(8).hex()}
    began = time.time()
    async with open_sandbox(provider, make_spec(labels=labels)) as sandbox:
        listed = await provider.list({"harness.conformance": labels["harness.conformance"]})
        expect([info.id for info in listed], [sandbox.id], "listed by label")
        expect(dict(listed[0].labels).items() >= labels.items(), True, "labels")
        expect(began - 5 <= listed[0].created_at <= time.time() + 5, True, "creation time")
        expect(await provider.list({**labels, "harness.conformance": "other"}), [], "another label")
        await provider.remove(sandbox.id)
        await provider.remove(sandbox.id)
        expect(await provider.list(labels), [], "listed after removal")
        expect(await sandbox.is_alive(), False, "alive after removal")


@provider_check
async def a_cancelled_start_leaves_nothing(provider: SandboxProvider, make_spec: SpecFactory) -> None:
    labels = {OWNER: owner_label(), "harness.conformance": os.urandom(8).hex()}
    for delay in (0.0, 0.002, 0.01, 0.05):
        task = asyncio.create_task(provider.start(make_spec(labels=labels)))
        await asyncio.sleep(delay)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await (await task).stop()
    expect(await provider.list(labels), [], "sandboxes left behind")
