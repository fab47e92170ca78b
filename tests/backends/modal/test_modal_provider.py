"""Credentials, images, limits and labels of the modal backend, as the control plane sees them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from controlplanes.modal import TOKEN_SECRET, Fault, ModalPlane
from grpclib import Status
from modal_proto import api_pb2 as api

from backends import SandboxBackendProtocol, SandboxSpec, errors
from backends.modal.entrypoint import LONGEST_SEC
from backends.modal.provider import ModalProvider
from backends.spec import NetworkMode, Resources

Start = Callable[..., Awaitable[SandboxBackendProtocol]]


def spec(**changes: object) -> SandboxSpec:
    return SandboxSpec(**{"image": "debian:bookworm-slim", "workdir": "/app", **changes})  # type: ignore[arg-type]


# Credentials


async def test_missing_credentials_are_one_line_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("modal.config._user_config", {})
    provider = ModalProvider()
    with pytest.raises(errors.SandboxAuthError) as caught:
        await provider.start(spec())
    assert "MODAL_TOKEN_ID" in str(caught.value)
    assert "\n" not in str(caught.value)
    readiness = await provider.check()
    assert (readiness.works, "modal token new" in str(readiness.fix)) == (False, True)
    await provider.close()


async def test_refused_credentials_are_said_by_check(
    plane: ModalPlane, provider: ModalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-wrong")
    readiness = await provider.check()
    assert not readiness.works
    assert "as-wrong" not in readiness.detail


async def test_good_credentials_are_ready(provider: ModalProvider) -> None:
    assert (await provider.check()).works


async def test_the_secret_reaches_no_log_and_no_command(
    plane: ModalPlane, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sandbox = await start()
    response = await sandbox.execute("env; cat /proc/*/environ", timeout=10)
    assert TOKEN_SECRET.encode() not in response.stdout
    assert TOKEN_SECRET not in caplog.text


# Images


async def test_an_image_is_built_once_however_many_wait(plane: ModalPlane, start: Start, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /srv\nCOPY data /srv/data\n")
    (tmp_path / "data").write_text("42\n")
    plane.build_seconds = 0.3
    boxes = await asyncio.gather(*(start(build_dir=tmp_path, workdir=None) for _ in range(4)))
    assert set(plane.builds.values()) == {1}
    assert plane.calls["ImageGetOrCreate"] == len(plane.builds)  # one a layer, asked for once
    assert {box.workdir for box in boxes} == {"/srv"}
    assert (await boxes[3].execute("cat data", timeout=10)).stdout == b"42\n"


async def test_whoever_stops_waiting_does_not_end_the_build_for_others(
    plane: ModalPlane, provider: ModalProvider, start: Start
) -> None:
    plane.build_seconds = 0.5
    first = asyncio.create_task(provider.start(spec()))
    await asyncio.sleep(0.2)
    second = asyncio.create_task(start())
    await asyncio.sleep(0.05)
    first.cancel()
    assert await (await second).is_alive()
    assert plane.builds.total() == 1


async def test_a_failed_build_is_the_tasks_fault_and_carries_what_was_said(
    plane: ModalPlane, provider: ModalProvider, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm-slim\nRUN false\n")
    plane.build_result = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_FAILURE, exception="RUN false: 1")
    with pytest.raises(errors.SandboxBuildError) as caught:
        await provider.start(SandboxSpec(build_dir=tmp_path))
    assert "RUN false: 1" in caught.value.log


async def test_a_build_has_a_deadline(plane: ModalPlane, provider: ModalProvider) -> None:
    plane.faults["ImageGetOrCreate"] = Fault(hang=True)
    with pytest.raises(errors.SandboxTimeout):
        await provider.start(spec(build_timeout_sec=0.5))


async def test_root_administers_an_image_that_names_another_user(
    plane: ModalPlane, provider: ModalProvider, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm-slim\nUSER nobody:nogroup\n")
    source = await provider._images.ensure(SandboxSpec(build_dir=tmp_path))
    assert source.user == "nobody"
    last = list(plane._images.values())[-1]
    assert list(last.dockerfile_commands) == ["FROM base", "USER root"]


# What is asked for


async def test_limits_network_and_labels_arrive(plane: ModalPlane, start: Start) -> None:
    sandbox = await start(
        resources=Resources(cpus=1.5, memory_mb=2048, disk_mb=10_240), labels={"harness.job": "j"}, ttl_sec=300
    )
    made = plane.sandboxes[sandbox.id]
    wanted = made.definition.resources
    assert (wanted.milli_cpu, wanted.milli_cpu_max, wanted.memory_mb, wanted.memory_mb_max) == (1500, 1500, 2048, 2048)
    assert made.definition.network_access.network_access_type == api.NetworkAccess.BLOCKED
    assert made.tags["harness.job"] == "j"
    assert made.definition.timeout_secs == LONGEST_SEC  # the clock inside ends it after 300 s
    opened = await start(network=NetworkMode.FULL)
    assert plane.sandboxes[opened.id].definition.network_access.network_access_type == api.NetworkAccess.OPEN


@pytest.mark.parametrize(
    "changes",
    [
        {"resources": Resources(disk_mb=1 << 20)},
        {"resources": Resources(pids=64)},
        {"ttl_sec": 90_000.0},
    ],
)
async def test_what_modal_cannot_give_is_refused_before_anything_is_made(
    changes: dict[str, object], plane: ModalPlane, provider: ModalProvider
) -> None:
    with pytest.raises(errors.SandboxUnsupported, match="modal cannot give"):
        await provider.start(spec(**changes))
    assert not plane.calls


async def test_no_more_live_sandboxes_than_allowed(plane: ModalPlane) -> None:
    provider = ModalProvider(max_sandboxes=2)
    try:
        first, second = await provider.start(spec()), await provider.start(spec())
        third = asyncio.create_task(provider.start(spec()))
        await asyncio.sleep(0.3)
        assert len(plane.alive) == 2
        await first.stop()
        await (await third).stop()
        await second.stop()
    finally:
        await provider.close()
    assert plane.alive == []


async def test_one_that_ends_while_it_is_listed_is_left_out(
    plane: ModalPlane, provider: ModalProvider, start: Start
) -> None:
    await start()
    await start()
    plane.faults["SandboxTagsGetV2"] = Fault(status=Status.NOT_FOUND, times=1)
    assert len(await provider.list()) == 1
