"""From a Dockerfile to a snapshot that is built once, and what the service may do to it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from controlplanes.daytona import DaytonaPlane

from backends import SandboxSpec
from backends.conformance import shell
from backends.daytona.provider import DaytonaProvider
from backends.errors import (
    SandboxBuildError,
    SandboxImageNotFound,
    SandboxTimeout,
    SandboxUnavailable,
    SandboxUnsupported,
)
from backends.remote.sandbox import RemoteSandbox
from backends.spec import Resources

Start = Callable[..., Awaitable[RemoteSandbox]]


async def test_ten_that_wait_for_a_snapshot_cost_one_build(plane: DaytonaPlane, start: Start, build_dir: Path) -> None:
    plane.build_seconds = 0.3
    await asyncio.gather(*(start(build_dir=build_dir) for _ in range(10)))
    assert plane.calls["create_snapshot"] == 1
    (snapshot,) = plane.snapshots.values()
    assert snapshot["name"].startswith("harness-")
    assert [body["snapshot"] for body in plane.created] == [snapshot["name"]] * 10


async def test_another_process_finds_the_snapshot_and_other_content_or_resources_make_another(
    plane: DaytonaPlane, start: Start, build_dir: Path
) -> None:
    await start(build_dir=build_dir)
    other = DaytonaProvider()
    for limits, lines in ((Resources(), ""), (Resources(memory_mb=4096), ""), (Resources(), "ENV A=1\n")):
        with (build_dir / "Dockerfile").open("a") as file:
            file.write(lines)
        await (await other.start(SandboxSpec(build_dir=build_dir, resources=limits))).stop()
    await other.close()
    assert plane.calls["create_snapshot"] == 3
    assert sorted(snapshot["mem"] for snapshot in plane.snapshots.values()) == [1, 1, 4]


async def test_a_snapshot_that_another_process_is_building_is_waited_for(
    plane: DaytonaPlane, start: Start, build_dir: Path
) -> None:
    plane.build_seconds = 0.5
    other = DaytonaProvider()
    both = await asyncio.gather(start(build_dir=build_dir), other.start(SandboxSpec(build_dir=build_dir)))
    await both[1].stop()
    await other.close()
    assert len(plane.snapshots) == 1


@pytest.mark.parametrize("state", ["error", "build_failed", "inactive"])
async def test_a_snapshot_that_is_not_ready_is_made_so(
    state: str, plane: DaytonaPlane, start: Start, build_dir: Path
) -> None:
    await start(build_dir=build_dir)
    next(iter(plane.snapshots.values()))["state"] = state
    other = DaytonaProvider()
    await (await other.start(SandboxSpec(build_dir=build_dir))).stop()
    await other.close()
    assert [snapshot["state"] for snapshot in plane.snapshots.values()] == ["active"]


async def test_a_snapshot_that_was_removed_meanwhile_is_built_again(
    plane: DaytonaPlane, start: Start, build_dir: Path
) -> None:
    await start(build_dir=build_dir)
    plane.snapshots.clear()
    await start(build_dir=build_dir)
    assert plane.calls["create_snapshot"] == 2


async def test_files_of_the_folder_are_in_the_image(start: Start, build_dir: Path) -> None:
    (build_dir / "data" / "sub").mkdir(parents=True)
    (build_dir / "data" / "sub" / "a").write_text("deep\n")
    (build_dir / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (build_dir / "run.sh").chmod(0o755)
    with (build_dir / "Dockerfile").open("a") as file:
        file.write("COPY data/ /app/data/\nCOPY run.sh /app/bin/run\nENV GREETING=hi\n")
    sandbox = await start(build_dir=build_dir, workdir=None)
    assert sandbox.workdir == "/app"
    assert await shell(sandbox, "cat data/sub/a; bin/run; echo $GREETING") == "deep\nran\nhi\n"


async def test_the_last_user_line_is_who_commands_run_as_and_root_is_who_the_service_runs_as(
    plane: DaytonaPlane, provider: DaytonaProvider, build_dir: Path
) -> None:
    (build_dir / "Dockerfile").write_text("FROM a AS one\nUSER other\nFROM b\nUSER agent:staff\n")
    source = await provider._images.ensure(SandboxSpec(image="b"))
    assert source.user == "root"
    plane.build_failure = "stop here"
    declared = []
    provider._images._create = lambda name, image, spec: declared.append(image) or _nothing()  # type: ignore[method-assign]
    with pytest.raises(Exception):  # noqa: B017
        async with asyncio.timeout(2):
            await provider._images.ensure(SandboxSpec(build_dir=build_dir, build_timeout_sec=1.5))
    assert declared[0].dockerfile().endswith("USER agent:staff\nUSER root\n")


async def _nothing() -> None:
    return None


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        ("ADD local.tar /app/", SandboxUnsupported, "Dockerfile:3: daytona does not take ADD of local files; use COPY"),
        ("USER $NAME", SandboxUnsupported, "Dockerfile:3: daytona does not take a USER that is a variable"),
        ("COPY ../secret /app/", SandboxBuildError, "outside the build context"),
        ("COPY missing /app/", SandboxBuildError, "does not exist"),
    ],
)
async def test_what_cannot_be_built_is_one_line_before_anything_is_created(
    line: str, error: type[Exception], says: str, plane: DaytonaPlane, start: Start, build_dir: Path
) -> None:
    with (build_dir / "Dockerfile").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(error, match=says):
        await start(build_dir=build_dir)
    assert plane.snapshots == {}
    assert plane.created == []


async def test_a_folder_without_a_dockerfile_is_a_build_error(start: Start, tmp_path: Path) -> None:
    with pytest.raises(SandboxBuildError, match="Dockerfile"):
        await start(build_dir=tmp_path)


@pytest.mark.case("H2")
async def test_a_link_out_of_the_folder_never_leaves_the_host(
    plane: DaytonaPlane, start: Start, build_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "canary").write_text("canary")
    (build_dir / "secret").symlink_to(tmp_path / "canary")
    with (build_dir / "Dockerfile").open("a") as file:
        file.write("COPY secret /app/secret\n")
    with pytest.raises(SandboxBuildError, match="outside the build context"):
        await start(build_dir=build_dir)
    assert plane.calls["object_put"] == 0


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("exit code 1", SandboxBuildError), ("pull access denied for nobody/nothing", SandboxImageNotFound)],
)
async def test_a_build_that_fails_says_why_and_is_not_tried_again(
    reason: str, expected: type[Exception], plane: DaytonaPlane, start: Start, build_dir: Path
) -> None:
    plane.build_failure = reason
    for _ in range(2):
        with pytest.raises(expected, match=reason):
            await start(build_dir=build_dir)
    assert plane.calls["create_snapshot"] == 1


@pytest.mark.parametrize("delay", [0.0, 0.1])
async def test_an_image_that_the_creation_could_not_build_says_why_and_leaves_nothing(
    delay: float, plane: DaytonaPlane, start: Start
) -> None:
    plane.start_seconds, plane.start_failure = delay, ("build_failed", "manifest for debian:nope not found")
    with pytest.raises(SandboxImageNotFound, match="debian:nope"):
        await start(image="debian:nope")
    assert plane.live == []
    assert plane.calls["create"] == 1


@pytest.mark.case("A13")
async def test_a_build_has_a_deadline(plane: DaytonaPlane, start: Start, build_dir: Path) -> None:
    plane.build_seconds = 60.0
    with pytest.raises(SandboxTimeout, match="1 s"):
        await start(build_dir=build_dir, build_timeout_sec=1.0)


async def test_an_organisation_without_room_for_snapshots_builds_at_creation(
    plane: DaytonaPlane, start: Start, build_dir: Path
) -> None:
    plane.faults.add(
        "^create_snapshot$", status=403, body=b'{"message": "Snapshot quota exceeded. Maximum allowed: 1"}'
    )
    await start(build_dir=build_dir)
    assert plane.snapshots == {}
    assert plane.created[0]["buildInfo"]["dockerfileContent"].startswith("FROM debian:bookworm-slim\nWORKDIR /app\n")


async def test_a_builder_that_stumbles_is_worth_another_trial(
    plane: DaytonaPlane, start: Start, build_dir: Path
) -> None:
    plane.faults.add("^create_snapshot$", status=500)
    with pytest.raises(SandboxUnavailable):
        await start(build_dir=build_dir)
    await start(build_dir=build_dir)
