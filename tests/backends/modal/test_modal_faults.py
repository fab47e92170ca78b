"""What the control plane and the worker get wrong on the wire, and what the unmodified SDK and we make of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from controlplanes.modal import Fault, ModalPlane
from grpclib import Status
from modal_proto import api_pb2 as api

from backends import SandboxBackendProtocol, SandboxSpec, errors
from backends.frame import Request
from backends.modal import channel
from backends.modal.provider import ModalProvider
from backends.remote import sandbox as remote

Start = Callable[..., Awaitable[SandboxBackendProtocol]]


def spec(**changes: object) -> SandboxSpec:
    return SandboxSpec(**{"image": "debian:bookworm-slim", "workdir": "/app", **changes})  # type: ignore[arg-type]


# Refusals


REFUSALS = [
    ("AppGetOrCreate", Status.UNAUTHENTICATED, errors.SandboxAuthError),
    ("AppGetOrCreate", Status.PERMISSION_DENIED, errors.SandboxAuthError),
    ("ImageGetOrCreate", Status.UNAUTHENTICATED, errors.SandboxAuthError),
    ("ImageGetOrCreate", Status.NOT_FOUND, errors.SandboxImageNotFound),
    ("ImageGetOrCreate", Status.RESOURCE_EXHAUSTED, errors.SandboxQuotaError),
    ("ImageGetOrCreate", Status.INTERNAL, errors.SandboxUnavailable),
    ("SandboxCreateV2", Status.UNAUTHENTICATED, errors.SandboxAuthError),
    ("SandboxCreateV2", Status.PERMISSION_DENIED, errors.SandboxAuthError),
    ("SandboxCreateV2", Status.NOT_FOUND, errors.SandboxStartError),
    ("SandboxCreateV2", Status.INVALID_ARGUMENT, errors.SandboxUnsupported),
    ("SandboxCreateV2", Status.RESOURCE_EXHAUSTED, errors.SandboxQuotaError),
    ("SandboxCreateV2", Status.INTERNAL, errors.SandboxUnavailable),
    ("SandboxCreateV2", Status.UNAVAILABLE, errors.SandboxUnavailable),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status", "expected"), REFUSALS)
async def test_a_start_that_is_refused_is_one_error_and_leaves_nothing(
    name: str, status: Status, expected: type[errors.SandboxError], plane: ModalPlane, provider: ModalProvider
) -> None:
    plane.faults[name] = Fault(status=status)
    with pytest.raises(errors.SandboxError) as caught:
        await provider.start(spec())
    assert type(caught.value) is expected
    assert plane.alive == []


EXECUTE = [
    (Status.UNAUTHENTICATED, errors.SandboxAuthError),
    (Status.PERMISSION_DENIED, errors.SandboxAuthError),
    (Status.NOT_FOUND, errors.SandboxUnavailable),
    (Status.RESOURCE_EXHAUSTED, errors.SandboxQuotaError),
    (Status.INTERNAL, errors.SandboxUnavailable),  # which takes the SDK's whole patience, ten seconds
]


@pytest.mark.slow
@pytest.mark.parametrize(("status", "expected"), EXECUTE)
async def test_a_command_that_the_worker_refuses_is_an_error_and_never_a_result(
    status: Status, expected: type[errors.SandboxError], plane: ModalPlane, sandbox: SandboxBackendProtocol
) -> None:
    plane.faults["TaskExecStart"] = Fault(status=status, times=12)  # the SDK repeats some of them ten times
    with pytest.raises(errors.SandboxError) as caught:
        await sandbox.execute("true", timeout=20)
    assert type(caught.value) is expected
    assert caught.value.sandbox_id == sandbox.id


# Blips


async def test_a_blip_is_repeated_by_the_sdk_and_the_command_runs_once(
    plane: ModalPlane, sandbox: SandboxBackendProtocol
) -> None:
    plane.faults["TaskExecStart"] = Fault(status=Status.UNAVAILABLE, late=True, times=1)
    assert (await sandbox.execute("echo ran >>count; wc -l <count", timeout=10)).stdout == b"1\n"


async def test_a_stream_that_is_cut_goes_on_where_it_was(plane: ModalPlane, sandbox: SandboxBackendProtocol) -> None:
    plane.faults["TaskExecStdioRead"] = Fault(reset=True, after=1000, times=2)
    response = await sandbox.execute("seq 20000", timeout=10)
    assert response.stdout == b"".join(b"%d\n" % n for n in range(1, 20001))


@pytest.mark.slow
async def test_a_worker_out_of_reach_is_an_error_within_the_sdks_patience(
    plane: ModalPlane, sandbox: SandboxBackendProtocol
) -> None:
    plane.faults["TaskExecStdioRead"] = Fault(reset=True, times=30)
    with pytest.raises(errors.SandboxUnavailable):
        await sandbox.execute("true", timeout=20)


# A sandbox that dies


ENDINGS = [
    (api.GenericResult.GENERIC_STATUS_KERNEL_OOM_KILL, errors.SandboxOutOfMemory),
    (api.GenericResult.GENERIC_STATUS_MEMORY_MANAGER_EVICTION, errors.SandboxOutOfMemory),
    (api.GenericResult.GENERIC_STATUS_MEMORY_THRASHING_EVICTION, errors.SandboxOutOfMemory),
    (api.GenericResult.GENERIC_STATUS_INTERNAL_FAILURE, errors.SandboxUnavailable),
    (api.GenericResult.GENERIC_STATUS_TERMINATED, errors.SandboxUnavailable),
    (api.GenericResult.GENERIC_STATUS_TIMEOUT, errors.SandboxUnavailable),
]


@pytest.mark.case("A8")
@pytest.mark.parametrize(("status", "expected"), ENDINGS)
async def test_a_sandbox_that_dies_during_a_command_says_of_what(
    status: int, expected: type[errors.SandboxError], plane: ModalPlane, sandbox: SandboxBackendProtocol
) -> None:
    work = asyncio.create_task(sandbox.execute("echo begun; sleep 60", timeout=60))
    await asyncio.sleep(0.3)
    await plane.kill(sandbox.id, status)
    with pytest.raises(errors.SandboxError) as caught:
        await asyncio.wait_for(work, 10)
    assert type(caught.value) is expected
    assert not await sandbox.is_alive()


@pytest.mark.parametrize(("status", "expected"), ENDINGS[::3])
async def test_a_sandbox_that_died_between_commands_says_of_what(
    status: int, expected: type[errors.SandboxError], plane: ModalPlane, sandbox: SandboxBackendProtocol
) -> None:
    await sandbox.execute("true", timeout=10)
    await plane.kill(sandbox.id, status)
    with pytest.raises(errors.SandboxError) as caught:
        await sandbox.execute("true", timeout=10)
    assert type(caught.value) is expected


@pytest.mark.case("A9")
async def test_a_worker_that_vanishes_without_a_word_is_noticed_by_asking_the_control_plane(
    plane: ModalPlane, sandbox: SandboxBackendProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "PROBE_SEC", 0.2)
    plane.faults["TaskExecStdioRead"] = Fault(hang=True)
    work = asyncio.create_task(sandbox.execute("sleep 60", timeout=600))
    await asyncio.sleep(0.5)
    await plane.kill(sandbox.id, api.GenericResult.GENERIC_STATUS_KERNEL_OOM_KILL)
    with pytest.raises(errors.SandboxOutOfMemory):
        await asyncio.wait_for(work, 5)


@pytest.mark.slow
@pytest.mark.case("A9")
async def test_a_worker_that_hangs_is_given_up_at_our_own_deadline(
    plane: ModalPlane, sandbox: SandboxBackendProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "GRACE_SEC", 0.5)
    monkeypatch.setattr(remote, "_ABORT_SEC", 1.0)
    plane.faults["TaskExecStdioRead"] = Fault(hang=True)
    began = time.monotonic()
    with pytest.raises(errors.SandboxTimeout):
        await sandbox.execute("sleep 60", timeout=1)
    assert time.monotonic() - began < 15


@pytest.mark.case("A9")
async def test_minus_one_is_never_an_exit_code(sandbox: SandboxBackendProtocol) -> None:
    assert isinstance(sandbox, remote.RemoteSandbox)
    request = Request(argv=("/bin/sh", "-c", "echo begun; sleep 60"), env={}, limit=4096)
    try:
        reply = await sandbox._channel.run(request, user=None, timeout=1)  # the SDK's own deadline, which is the -1
    except errors.SandboxTimeout:
        return
    assert reply.exit_code in (None, 137)


# A creation of unknown outcome


async def test_a_creation_that_succeeds_after_we_gave_up_is_found_by_its_tag_and_removed(
    plane: ModalPlane, provider: ModalProvider
) -> None:
    plane.faults["SandboxCreateV2"] = Fault(late=True, delay=1.5, hang=True)
    with pytest.raises(errors.SandboxTimeout):
        await provider.start(spec(start_timeout_sec=1.0))
    for _ in range(100):
        if plane.sandboxes and not plane.alive:
            break
        await asyncio.sleep(0.1)
    assert (len(plane.sandboxes), plane.alive) == (1, [])


@pytest.mark.slow
async def test_a_creation_whose_answer_is_lost_leaves_no_second_sandbox(
    plane: ModalPlane, provider: ModalProvider
) -> None:
    plane.faults["SandboxCreateV2"] = Fault(late=True, status=Status.INTERNAL, times=4)  # all that the SDK tries
    sandbox = await provider.start(spec())
    assert plane.alive == [sandbox.id]
    assert len(plane.sandboxes) == 2
    await sandbox.stop()


async def test_a_slow_creation_is_waited_for(plane: ModalPlane, provider: ModalProvider) -> None:
    plane.faults["SandboxCreateV2"] = Fault(delay=1.0)
    sandbox = await provider.start(spec(start_timeout_sec=20.0))
    assert await sandbox.is_alive()
    await sandbox.stop()


async def test_cancelling_a_slow_creation_leaves_nothing(plane: ModalPlane, provider: ModalProvider) -> None:
    plane.faults["SandboxCreateV2"] = Fault(delay=0.5)
    work = asyncio.create_task(provider.start(spec()))
    await asyncio.sleep(0.4)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert plane.alive == []


async def test_a_control_plane_that_does_not_answer_is_a_timeout(plane: ModalPlane, provider: ModalProvider) -> None:
    sandbox = await provider.start(spec())
    plane.faults["SandboxListV2"] = Fault(hang=True)
    with pytest.raises(errors.SandboxTimeout), pytest.MonkeyPatch.context() as patch:
        patch.setattr("backends.modal.provider.LIST_TIMEOUT_SEC", 0.3)
        await provider.list()
    await sandbox.stop()
