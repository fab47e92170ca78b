"""The life of a sandbox: what is asked of the service, and that every one is accounted for whatever goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from controlplanes.daytona import API_KEY, DaytonaPlane

from backends import NetworkMode, SandboxSpec, open_sandbox
from backends.conformance import shell
from backends.daytona.provider import DaytonaProvider
from backends.errors import (
    SandboxAuthError,
    SandboxError,
    SandboxQuotaError,
    SandboxStartError,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from backends.remote.launch import ATTEMPT
from backends.remote.sandbox import RemoteSandbox
from backends.spec import Resources

Start = Callable[..., Awaitable[RemoteSandbox]]
pytestmark = pytest.mark.usefixtures("short_pauses")

IMAGE = SandboxSpec(image="debian:bookworm-slim", workdir="/app", build_timeout_sec=0.001)


async def soon(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    for _ in range(round(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen")


# What is asked for


async def test_a_spec_becomes_a_request_in_the_services_units(plane: DaytonaPlane, start: Start) -> None:
    limits = Resources(cpus=1.5, memory_mb=2500, disk_mb=10_000, gpus=1)
    await start(resources=limits, network=NetworkMode.FULL, ttl_sec=601, env={"TOKEN": "s3"}, labels={"a": "b"})
    body = plane.created[0]
    assert (body["cpu"], body["memory"], body["disk"], body["gpu"]) == (2, 3, 10, 1)
    assert (body["autoStopInterval"], body["autoDeleteInterval"], body["ttlMinutes"]) == (0, 0, 11)
    assert body["networkBlockAll"] is False
    assert body["labels"]["a"] == "b"
    assert {"harness.owner", ATTEMPT} <= body["labels"].keys()
    assert body["buildInfo"]["dockerfileContent"] == "FROM debian:bookworm-slim\nUSER root\n"
    assert body["env"] == {}  # variables travel with each command: the service keeps none of them


async def test_the_network_is_closed_unless_asked_for(plane: DaytonaPlane, start: Start) -> None:
    await start()
    assert plane.created[0]["networkBlockAll"] is True


async def test_each_sandbox_has_labels_of_its_own(plane: DaytonaPlane, start: Start) -> None:
    labels = {"a": "b"}
    await asyncio.gather(*(start(labels=labels) for _ in range(5)))
    assert len({body["labels"][ATTEMPT] for body in plane.created}) == 5
    assert labels == {"a": "b"}


async def test_the_key_is_nowhere_inside(start: Start) -> None:
    sandbox = await start()
    assert API_KEY not in await shell(sandbox, "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'")


async def test_a_time_to_live_longer_than_the_lease_is_renewed_and_the_service_is_asked_for_no_more(
    plane: DaytonaPlane, start: Start
) -> None:
    sandbox = await start(ttl_sec=20 * 3600)
    assert plane.created[0]["ttlMinutes"] == 30
    await sandbox.renew()
    assert plane.calls["set_ttl"] == 1


# Creation that goes wrong


async def test_a_slow_start_is_noticed_when_it_is_over(plane: DaytonaPlane, start: Start) -> None:
    plane.start_seconds = 0.5
    began = time.monotonic()
    await start()
    assert time.monotonic() - began < 5


@pytest.mark.case("A13")
async def test_a_sandbox_that_does_not_start_in_time_is_removed(plane: DaytonaPlane, provider: DaytonaProvider) -> None:
    plane.start_seconds = 30.0
    await provider.check()  # the client is open before the clock runs
    spec = replace(IMAGE, start_timeout_sec=1.0)
    with pytest.raises(SandboxTimeout):
        await provider.start(spec)
    assert plane.calls["create"] == 1
    assert plane.live == []


async def test_a_creation_that_succeeds_after_its_client_gave_up_is_found_by_its_label_and_removed(
    plane: DaytonaPlane, provider: DaytonaProvider
) -> None:
    plane.faults.add("^create$", delay=2.0)
    with pytest.raises(SandboxTimeout):
        await provider.start(replace(IMAGE, start_timeout_sec=0.7))
    await soon(lambda: len(plane.created) == 1)
    await soon(lambda: plane.live == [])


async def test_an_answer_that_is_lost_leaves_one_sandbox_and_not_two(plane: DaytonaPlane, start: Start) -> None:
    plane.faults.add("^create$", reset=True, work=True)
    await start()
    assert len(plane.created) == 2
    assert len(plane.live) == 1


async def test_a_start_that_is_cancelled_leaves_nothing(plane: DaytonaPlane, provider: DaytonaProvider) -> None:
    plane.start_seconds = 0.5
    task = asyncio.create_task(provider.start(IMAGE))
    await soon(lambda: plane.created != [])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert plane.live == []


async def test_a_sandbox_in_the_state_of_an_error_is_a_start_error_and_removed(
    plane: DaytonaPlane, provider: DaytonaProvider
) -> None:
    plane.start_seconds, plane.start_failure = 0.1, ("error", "no runner could take it")
    with pytest.raises(SandboxStartError, match="no runner could take it"):
        await provider.start(IMAGE)
    assert plane.live == []


async def test_the_service_failing_for_a_moment_costs_a_repetition(plane: DaytonaPlane, start: Start) -> None:
    plane.faults.add("^create$", status=503)
    plane.faults.add("^create$", status=429)
    await start()
    assert plane.calls["create"] == 3
    assert len(plane.live) == 1


@pytest.mark.parametrize("header", ["Retry-After", "Retry-After-sandbox-create"])
async def test_a_rate_limit_is_waited_out_as_long_as_the_service_says(
    header: str, plane: DaytonaPlane, start: Start
) -> None:
    plane.faults.add("^create$", status=429, headers={header: "1"})
    began = time.monotonic()
    await start()
    assert (time.monotonic() - began >= 1.0, plane.calls["create"]) == (True, 2)


@pytest.mark.parametrize(
    ("status", "expected", "calls"),
    [
        (401, SandboxAuthError, 1),
        (422, SandboxUnsupported, 1),
        (404, SandboxStartError, 1),
        (429, SandboxQuotaError, 3),
    ],
)
async def test_only_what_may_pass_is_repeated(
    status: int, expected: type[SandboxError], calls: int, plane: DaytonaPlane, provider: DaytonaProvider
) -> None:
    plane.faults.add("^create$", status=status, times=99)
    with pytest.raises(expected):
        await provider.start(IMAGE)
    assert plane.calls["create"] == calls
    assert plane.live == []


async def test_at_most_so_many_live_at_once(plane: DaytonaPlane) -> None:
    provider = DaytonaProvider(max_sandboxes=3)
    assert provider.capabilities.max_sandboxes == 3

    async def one() -> None:
        async with open_sandbox(provider, IMAGE):
            await asyncio.sleep(0.05)

    await asyncio.gather(*(one() for _ in range(8)))
    await provider.close()
    assert (plane.calls["create"], plane.peak, plane.live) == (8, 3, [])


def test_the_default_bound_is_forty() -> None:
    assert DaytonaProvider().capabilities.max_sandboxes == 40


# A sandbox that dies, and a service that stumbles


async def test_a_sandbox_that_dies_between_commands_is_unavailable(plane: DaytonaPlane, start: Start) -> None:
    sandbox = await start()
    await plane.die(sandbox.id)
    with pytest.raises(SandboxUnavailable):
        await sandbox.execute("true", timeout=5)
    assert not await sandbox.is_alive()
    await sandbox.stop()


async def test_a_sandbox_that_was_stopped_behind_our_back_is_unavailable_at_once(
    plane: DaytonaPlane, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.daytona.channel._STARTING_SEC", 0.0)
    sandbox = await start()
    await plane.die(sandbox.id, state="stopped")
    with pytest.raises(SandboxUnavailable):
        await sandbox.execute("true", timeout=5)
    assert plane.calls["execute"] == 2
    assert not await sandbox.is_alive()


async def test_a_sandbox_that_dies_during_a_command_is_unavailable(plane: DaytonaPlane, start: Start) -> None:
    sandbox = await start()
    task = asyncio.create_task(sandbox.execute("echo begun; sleep 60", timeout=90))
    await soon(lambda: plane.calls["execute"] == 2)
    await asyncio.sleep(0.3)
    await plane.die(sandbox.id)
    with pytest.raises(SandboxUnavailable):
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("fault", [{"cut": True}, {"reset": True}, {"status": 502}, {"body": b"{garbage"}])
async def test_a_command_whose_answer_broke_is_an_error_and_never_run_twice(
    fault: dict[str, object], plane: DaytonaPlane, start: Start
) -> None:
    sandbox = await start()
    plane.faults.add("^execute$", work=True, **fault)
    with pytest.raises(SandboxUnavailable):
        await sandbox.execute("echo once >>/app/log", timeout=10)
    assert await shell(sandbox, "cat /app/log") == "once\n"


async def test_a_command_that_was_turned_away_by_the_rate_limit_is_run_once(plane: DaytonaPlane, start: Start) -> None:
    sandbox = await start()
    plane.faults.add("^execute$", status=429)
    await shell(sandbox, "echo once >>/app/log")
    assert await shell(sandbox, "cat /app/log") == "once\n"


async def test_a_sandbox_whose_toolbox_is_not_up_yet_is_waited_for(plane: DaytonaPlane, start: Start) -> None:
    plane.faults.add("^execute$", status=400, times=2)
    assert await shell(await start(), "echo up") == "up\n"


async def test_a_service_that_hangs_meets_our_deadline(
    plane: DaytonaPlane, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.remote.sandbox.GRACE_SEC", 0.5)
    sandbox = await start()
    plane.faults.add("^execute$", hang=True)
    began = time.monotonic()
    with pytest.raises(SandboxTimeout):
        await sandbox.execute("true", timeout=0.5)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 409}, {"reset": True}, {"status": 429}])
async def test_stopping_is_repeated_until_it_is_done(
    fault: dict[str, object], plane: DaytonaPlane, start: Start
) -> None:
    sandbox = await start()
    plane.faults.add("^delete$", **fault)
    await sandbox.stop()
    assert plane.live == []


async def test_listing_reads_every_page_and_leaves_out_what_is_not_ours(
    plane: DaytonaPlane, provider: DaytonaProvider, start: Start
) -> None:
    sandboxes = await asyncio.gather(*(start(labels={"n": str(n)}) for n in range(5)))
    del plane.sandboxes[sandboxes[0].id].dto["labels"]["harness.owner"]
    plane.page = 2
    assert {info.id for info in await provider.list()} == {sandbox.id for sandbox in sandboxes[1:]}
    assert [info.id for info in await provider.list({"n": "3"})] == [sandboxes[3].id]


# Credentials


@pytest.mark.parametrize("call", ["start", "list", "remove"])
async def test_missing_credentials_are_told_before_anything_is_asked(
    call: str, plane: DaytonaPlane, provider: DaytonaProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAYTONA_API_KEY")
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "start": lambda: provider.start(IMAGE),
        "list": provider.list,
        "remove": lambda: provider.remove("x"),
    }
    with pytest.raises(SandboxAuthError, match="set DAYTONA_API_KEY"):
        await calls[call]()
    assert plane.calls.total() == 0


async def test_a_token_with_its_organization_is_as_good_as_a_key(
    plane: DaytonaPlane, provider: DaytonaProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAYTONA_API_KEY")
    monkeypatch.setenv("DAYTONA_JWT_TOKEN", API_KEY)
    assert not (await provider.check()).works
    monkeypatch.setenv("DAYTONA_ORGANIZATION_ID", "org-1")
    assert (await provider.check()).works


async def test_a_env_file_in_the_working_directory_brings_no_credentials(
    tmp_path: Path, plane: DaytonaPlane, provider: DaytonaProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text(f"DAYTONA_API_KEY={API_KEY}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAYTONA_API_KEY")
    readiness = await provider.check()
    assert (readiness.works, plane.calls.total()) == (False, 0)


async def test_readiness_says_why_it_does_not_work(
    plane: DaytonaPlane, provider: DaytonaProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await provider.check()).works
    plane.faults.add("^list$", status=401)
    refused = await provider.check()
    assert (refused.works, "DAYTONA_API_KEY" in (refused.fix or "")) == (False, True)
    await plane.close()
    gone = await provider.check()
    assert (gone.works, "DAYTONA_API_URL" in (gone.fix or "")) == (False, True)
