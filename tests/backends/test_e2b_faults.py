"""Everything that can go wrong between us and E2B, against a loopback E2B: what is raised, and what is left behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from controlplanes.e2b import KEY, E2BPlane, e2b_plane

from backends import SandboxProvider, SandboxSpec, create_provider
from backends.errors import (
    SandboxAuthError,
    SandboxError,
    SandboxQuotaError,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from backends.lifecycle import OWNER, open_sandbox, owner_label
from backends.spec import Resources

pytestmark = pytest.mark.usefixtures("short_pauses")

CREATE = "POST /v2/sandboxes$"
START = "POST /process.Process/Start"


@pytest.fixture
async def plane(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[E2BPlane]:
    async with e2b_plane() as plane:
        for name, value in plane.env.items():
            monkeypatch.setenv(name, value)
        yield plane


@pytest.fixture
async def provider(plane: E2BPlane) -> AsyncIterator[SandboxProvider]:
    made = create_provider("e2b", creates_per_sec=1000)
    yield made
    await made.close()


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    return make_spec(tmp_path)


def make_spec(folder: Path, dockerfile: str = "FROM debian:bookworm-slim\nWORKDIR /app\n", **more: Any) -> SandboxSpec:
    (folder / "Dockerfile").write_text(dockerfile)
    return SandboxSpec(**{"build_dir": folder, "labels": {OWNER: owner_label(), "harness.job": "j"}, **more})


async def ready(provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec) -> None:
    """Build the template and forget the calls, so that a test sees only what it asks for."""
    async with open_sandbox(provider, spec):
        pass
    plane.calls.clear()
    plane.created.clear()


async def eventually(condition: Any, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        await asyncio.sleep(0.05)


# Refusals


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_are_told_at_once_and_without_the_key(
    status: int, provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    await ready(provider, plane, spec)
    plane.faults.add(CREATE, status=status, times=99)
    with pytest.raises(SandboxAuthError, match="E2B_API_KEY") as caught:
        await provider.start(spec)
    assert (plane.calls, KEY in str(caught.value), caught.value.retryable) == (["POST /v2/sandboxes"], False, False)


async def test_a_missing_key_is_one_line_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    provider = create_provider("e2b")
    readiness = await provider.check()
    assert (readiness.works, readiness.detail) == (False, "E2B_API_KEY is not set")
    assert readiness.fix is not None and "https://e2b.dev" in readiness.fix
    with pytest.raises(SandboxAuthError, match="set E2B_API_KEY to a key"):
        await provider.start(make_spec(tmp_path))


async def test_a_rate_limit_is_waited_out_as_long_as_the_server_says(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    await ready(provider, plane, spec)
    plane.faults.add(CREATE, status=429, headers={"Retry-After": "1"})
    began = time.monotonic()
    async with open_sandbox(provider, spec):
        assert time.monotonic() - began >= 1.0
    assert plane.calls.count("POST /v2/sandboxes") == 2


async def test_a_rate_limit_without_a_word_is_repeated_and_then_told_as_quota(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec, caplog: pytest.LogCaptureFixture
) -> None:
    await ready(provider, plane, spec)
    plane.faults.add(CREATE, status=429, headers={"Should-Retry": "false"}, times=99)
    with caplog.at_level(logging.WARNING), pytest.raises(SandboxQuotaError) as caught:
        await provider.start(spec)
    assert caught.value.retryable
    assert [record.message.split("; ")[1][:16] for record in caplog.records] == ["repetition 1 of ", "repetition 2 of "]
    assert KEY not in caplog.text


async def test_a_server_error_at_creation_is_repeated(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    await ready(provider, plane, spec)
    plane.faults.add(CREATE, status=502, headers={"Should-Retry": "false"}, times=2)
    async with open_sandbox(provider, spec):
        assert len(plane.sandboxes) == 1
    assert plane.sandboxes == {}


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"[1]", b'{"sandboxID": 3'])
async def test_garbage_in_place_of_an_answer_is_a_typed_error(
    body: bytes, provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    await ready(provider, plane, spec)
    plane.faults.add(CREATE, status=201, body=body, headers={"Content-Type": "application/json"}, times=99)
    with pytest.raises(SandboxError):
        await provider.start(spec)
    assert plane.sandboxes == {}


async def test_a_template_that_vanished_is_built_again(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    await ready(provider, plane, spec)
    plane.templates.clear()
    async with open_sandbox(provider, spec) as sandbox:
        assert await sandbox.is_alive()
    assert len(plane.templates) == 1


async def test_gpus_are_refused_before_anything_is_asked_of_the_server(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    with pytest.raises(SandboxUnsupported, match="no GPUs; use `--backend docker`"):
        await provider.start(make_spec(tmp_path, resources=Resources(gpus=1)))
    assert plane.calls == []


# Creation, and what must not be left behind


@pytest.mark.case("A11")
async def test_a_creation_whose_answer_was_lost_is_found_by_label_and_ended(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    await ready(provider, plane, spec)
    plane.faults.add(CREATE, reset=True, work=True)
    async with open_sandbox(provider, spec) as sandbox:
        assert list(plane.sandboxes) == [sandbox.id]
    assert len(plane.created) == 2
    assert plane.sandboxes == {}


@pytest.mark.case("A13")
async def test_a_server_that_never_answers_is_a_timeout(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    spec = make_spec(tmp_path, start_timeout_sec=0.3)
    await ready(provider, plane, make_spec(tmp_path))
    plane.faults.add(CREATE, hang=True)
    began = time.monotonic()
    with pytest.raises(SandboxTimeout):
        await provider.start(spec)
    assert time.monotonic() - began < 5
    assert plane.sandboxes == {}


@pytest.mark.slow
@pytest.mark.case("A11")
async def test_a_creation_that_succeeds_after_we_gave_up_is_found_later(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    await ready(provider, plane, make_spec(tmp_path))
    plane.faults.add(CREATE, delay=1.5)
    with pytest.raises(SandboxTimeout):
        await provider.start(make_spec(tmp_path, start_timeout_sec=0.5))
    assert plane.created == []
    await eventually(lambda: len(plane.created) == 1)
    await eventually(lambda: plane.sandboxes == {})


async def test_a_start_cancelled_while_the_server_is_slow_leaves_nothing(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    await ready(provider, plane, spec)
    plane.faults.add(CREATE, delay=0.5)
    task = asyncio.create_task(provider.start(spec))
    await eventually(lambda: plane.calls == ["POST /v2/sandboxes"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (len(plane.created), plane.sandboxes) == (1, {})


async def test_a_sandbox_that_cannot_be_prepared_is_ended(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    await ready(provider, plane, spec)
    plane.faults.add(START, status=500, times=99)
    with pytest.raises(SandboxError):
        await provider.start(spec)
    assert plane.sandboxes == {}


async def test_no_more_sandboxes_live_at_once_than_allowed(plane: E2BPlane, spec: SandboxSpec) -> None:
    provider = create_provider("e2b", creates_per_sec=1000, max_sandboxes=2)
    assert provider.capabilities.max_sandboxes == 2

    async def use() -> None:
        async with open_sandbox(provider, spec) as sandbox:
            await sandbox.execute("true", timeout=10)

    await asyncio.gather(*(use() for _ in range(5)))
    assert (plane.most_alive, len(plane.created), plane.sandboxes) == (2, 5, {})
    await provider.close()


async def test_a_place_is_free_again_after_a_start_that_failed(plane: E2BPlane, spec: SandboxSpec) -> None:
    provider = create_provider("e2b", creates_per_sec=1000, max_sandboxes=1)
    plane.faults.add(CREATE, status=401, times=3)
    for _ in range(3):
        with pytest.raises(SandboxAuthError):
            await provider.start(spec)
    async with open_sandbox(provider, spec):
        pass
    await provider.close()


async def test_a_removal_that_fails_is_repeated_and_one_that_is_done_is_fine(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    sandbox = await provider.start(spec)
    plane.faults.add("DELETE", status=500, times=2)
    await sandbox.stop()
    await sandbox.stop()
    assert plane.sandboxes == {}


async def test_a_list_of_many_pages_is_read_to_its_end(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    plane.page = 2
    sandboxes = [await provider.start(spec) for _ in range(5)]
    assert {info.id for info in await provider.list({"harness.job": "j"})} == {each.id for each in sandboxes}
    for each in sandboxes:
        await each.stop()


@pytest.mark.slow
async def test_a_sandbox_outlives_its_lease_while_its_owner_lives(plane: E2BPlane, tmp_path: Path) -> None:
    provider = create_provider("e2b", creates_per_sec=1000, lease_sec=0.9)
    async with open_sandbox(provider, make_spec(tmp_path, ttl_sec=3600)) as sandbox:
        assert plane.created[-1]["timeout"] == 1
        await asyncio.sleep(2)
        assert await sandbox.is_alive()
    await provider.close()


# Commands


async def test_a_sandbox_that_dies_between_commands_is_unavailable(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        await plane.kill(sandbox.id)
        assert not await sandbox.is_alive()
        for work in (sandbox.execute("true", timeout=5), sandbox.read("x"), sandbox.kill_processes(), sandbox.renew()):
            with pytest.raises(SandboxUnavailable):
                await work


async def test_a_sandbox_that_dies_during_a_command_is_unavailable_and_no_result(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        plane.faults.add(START, kill=True, delay=0.2)
        with pytest.raises(SandboxUnavailable):
            await sandbox.execute("sleep 5", timeout=10)


async def test_a_stream_that_breaks_is_attached_to_again_and_the_command_runs_once(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        plane.faults.add(START, cut=True, delay=0.1)
        plane.faults.add("POST /process.Process/Connect", cut=True, delay=0.1)
        response = await sandbox.execute("echo once >>log; sleep 1; cat log", timeout=10)
        assert (response.stdout, response.exit_code) == (b"once\n", 0)
    assert plane.calls.count("POST /process.Process/Connect") == 2


async def test_a_command_whose_end_was_missed_is_an_error_and_not_run_again(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        plane.faults.add(START, cut=True, delay=0.5)
        with pytest.raises(SandboxUnavailable, match="before it could be attached to"):
            await sandbox.execute("echo once >>log", timeout=10)
        assert await sandbox.read("log") == b"once\n"


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_a_daemon_that_refuses_a_command_is_a_typed_error_and_the_next_one_works(
    status: int, provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        plane.faults.add(START, status=status)
        with pytest.raises(SandboxError):
            await sandbox.execute("true", timeout=5)
        assert (await sandbox.execute("true", timeout=5)).exit_code == 0


@pytest.mark.case("A10")
async def test_every_command_carries_a_limit_of_its_own(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        plane.limits.clear()
        await sandbox.execute("true", timeout=1800)
        assert [limit >= 1800_000 for limit in plane.limits] == [True]


async def test_commands_run_as_the_user_that_was_asked_for(
    provider: SandboxProvider, plane: E2BPlane, spec: SandboxSpec
) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        envd = plane.sandboxes[sandbox.id].envd
        envd.users.clear()
        await sandbox.execute("true", timeout=5)
        await sandbox.execute("true", timeout=5, user="nobody")
        assert envd.users == ["root", "nobody"]


async def test_a_profile_that_an_agent_wrote_reaches_no_later_command(
    provider: SandboxProvider, spec: SandboxSpec
) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        for name in (".bash_profile", ".profile", ".bashrc"):
            await sandbox.write(f"/root/{name}", b"echo pwned; exit 7\n")
        response = await sandbox.execute('echo "$HOME"', timeout=5)
        assert (response.stdout, response.exit_code) == (b"/root\n", 0)
        assert (await sandbox.execute('echo "$HOME"', timeout=5, env={"HOME": "/a b"})).stdout == b"/a b\n"


async def test_the_path_of_the_image_survives_the_login_shell(provider: SandboxProvider, tmp_path: Path) -> None:
    spec = make_spec(tmp_path, "FROM debian:bookworm-slim\nENV PATH=/opt/tool/bin:/usr/bin:/bin\nWORKDIR /app\n")
    async with open_sandbox(provider, spec) as sandbox:
        await sandbox.write("/etc/profile", b"export PATH=/usr/bin\n")
        assert (await sandbox.execute('echo "$PATH"', timeout=5)).stdout == b"/opt/tool/bin:/usr/bin:/bin\n"


async def test_the_key_is_nowhere_inside_a_sandbox(provider: SandboxProvider, spec: SandboxSpec) -> None:
    async with open_sandbox(provider, spec) as sandbox:
        found = await sandbox.execute(f"grep -la {KEY[:19]}[{KEY[19]}] /proc/[0-9]*/environ; env", timeout=5)
        assert b"E2B_API" not in found.stdout and b"environ" not in found.stdout
