"""Images: built once per content, told apart when they fail, and never left half built."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from left_out import leave_out

from backends import (
    SandboxBuildError,
    SandboxError,
    SandboxImageNotFound,
    SandboxSpec,
    SandboxTimeout,
    SandboxUnavailable,
)
from backends.docker.context import context_digest
from backends.docker.images import Images
from backends.docker.provider import DockerProvider
from backends.docker.sandbox import DockerSandbox

Start = Callable[..., Awaitable[DockerSandbox]]


def folder(at: Path, dockerfile: str, **files: str) -> Path:
    at.mkdir(parents=True, exist_ok=True)
    (at / "Dockerfile").write_text(dockerfile)
    for name, text in files.items():
        (at / name).write_text(text)
    return at


@contextmanager
def bridge_needed() -> Iterator[None]:
    """Steps of a Dockerfile run on the engine's bridge; where it has lost that, nothing can be told of them."""
    try:
        yield
    except SandboxUnavailable as error:
        if "could not find bridge" not in str(error):
            raise
        leave_out("this engine runs without a bridge network")


async def builders(provider: DockerProvider, image: str) -> list[str]:
    """Containers that a build of ours left: they carry no label, so they are known by what they run."""
    async with provider._engine.call("list") as client:
        found = await client._query_json("containers/json", params={"all": "1"})
    return [item["Id"] for item in found if "sleep 9876" in item["Command"]]


def test_a_digest_covers_content_names_modes_and_links_but_no_times(tmp_path: Path) -> None:
    one = folder(tmp_path / "one", "FROM x\n", a="1")
    two = folder(tmp_path / "two", "FROM x\n", a="1")
    os.utime(two / "a", (1, 1))
    same = context_digest(one)
    assert context_digest(two) == same
    seen = {same}
    (two / "a").chmod(0o755)
    seen.add(context_digest(two))
    (two / "a").rename(two / "b")
    seen.add(context_digest(two))
    (two / "l").symlink_to("b")
    seen.add(context_digest(two))
    (two / "d").mkdir()
    seen.add(context_digest(two))
    assert len(seen) == 5


def test_what_dockerignore_names_does_not_count(tmp_path: Path) -> None:
    build = folder(tmp_path, "FROM x\n", keep="1", skip="1")
    (build / ".dockerignore").write_text("# comment\nskip\n*.log\n!keep.log\n")
    before = context_digest(build)
    (build / "skip").write_text("2")
    (build / "x.log").write_text("2")
    assert context_digest(build) == before
    (build / "keep.log").write_text("2")
    assert context_digest(build) != before


@pytest.mark.docker
@pytest.mark.slow
async def test_a_folder_is_built_once_and_its_settings_are_kept(
    start: Start, provider: DockerProvider, image: str, tmp_path: Path
) -> None:
    unique = str(time.time_ns())
    text = f"FROM {image}\nENV ONE={unique}\nWORKDIR /srv/work\nCOPY data /data\nRUN chmod 777 /srv/work\nUSER nobody\n"
    build = folder(tmp_path / "build", text, data=unique)
    with bridge_needed():
        first, second = await asyncio.gather(*(start(build_dir=build, workdir=None) for _ in range(2)))
    response = await first.execute("pwd; id -un; echo $ONE; cat /data", timeout=20)
    assert response.stdout.decode().split() == ["/srv/work", "nobody", unique, unique]
    log = await asyncio.to_thread(provider._images.log_path(SandboxSpec(build_dir=build)).read_text)
    assert log.count("Successfully built") == 1
    async with provider._engine.call("list") as client:
        for container in (first, second):
            shown = await client.containers.container(container.id).show()
            assert shown["Image"] == (await provider._images.ensure(SandboxSpec(build_dir=build))).id
        await first.stop()
        await second.stop()
        await client.images.delete(f"harness-build:{context_digest(build)[:40]}", force=True)


@pytest.mark.docker
async def test_a_failing_step_is_the_tasks_fault_whatever_it_prints(
    provider: DockerProvider, image: str, tmp_path: Path
) -> None:
    build = folder(
        tmp_path,
        f"FROM {image}\nRUN echo told-{time.time_ns()}; echo 'no space left on device manifest unknown'; exit 7\n",
    )
    with pytest.raises(SandboxBuildError, match="code: 7") as caught, bridge_needed():
        await provider.start(SandboxSpec(build_dir=build))
    assert "told-" in caught.value.log
    assert not caught.value.retryable


@pytest.mark.docker
async def test_a_dockerfile_that_cannot_be_read_or_parsed_is_the_tasks_fault(
    provider: DockerProvider, image: str, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    for build in (
        tmp_path / "none",
        folder(tmp_path / "parse", "NONSENSE x\n"),
        folder(tmp_path / "copy", f"FROM {image}\nCOPY missing /x\n"),
    ):
        with pytest.raises(SandboxBuildError):
            await provider.start(SandboxSpec(build_dir=build))


@pytest.mark.docker
@pytest.mark.slow
async def test_an_unreachable_registry_is_not_the_tasks_fault(provider: DockerProvider, tmp_path: Path) -> None:
    reference = "127.0.0.1:9/nobody/nothing:1"
    for spec in (SandboxSpec(image=reference), SandboxSpec(build_dir=folder(tmp_path, f"FROM {reference}\n"))):
        with pytest.raises(SandboxUnavailable) as caught:
            await provider.start(spec)
        assert caught.value.retryable


@pytest.mark.docker
async def test_a_malformed_reference_is_one_clear_error(provider: DockerProvider) -> None:
    with pytest.raises(SandboxError, match=r"(?i)invalid reference"):
        await provider.start(SandboxSpec(image="UPPER/Case:!!"))


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.case("A13")
@pytest.mark.parametrize("way", ["deadline", "cancelled"])
async def test_a_build_that_hangs_is_killed(provider: DockerProvider, image: str, tmp_path: Path, way: str) -> None:
    build = folder(tmp_path, f"FROM {image}\nRUN echo {time.time_ns()}; sleep 9876\n")
    begun = time.monotonic()
    if way == "deadline":
        with pytest.raises(SandboxTimeout), bridge_needed():
            await provider.start(SandboxSpec(build_dir=build, build_timeout_sec=4))
    else:
        task = asyncio.create_task(provider.start(SandboxSpec(build_dir=build)))
        await asyncio.sleep(4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError), bridge_needed():
            await task
    while await builders(provider, image):
        assert time.monotonic() - begun < 15
        await asyncio.sleep(0.2)


@pytest.mark.docker
async def test_an_image_that_vanished_is_looked_up_again(provider: DockerProvider, image: str) -> None:
    known = await provider._images.ensure(SandboxSpec(image=image))
    provider._images._known[image] = type(known)("sha256:" + "0" * 64, known.workdir, known.user, known.env)
    sandbox = await provider.start(SandboxSpec(image=image, ttl_sec=60))
    await sandbox.stop()


@pytest.mark.docker
async def test_one_process_builds_while_another_waits(provider: DockerProvider, tmp_path: Path) -> None:
    mine, other = Images(provider._engine, tmp_path), Images(provider._engine, tmp_path)
    order = []

    async def hold(images: Images, name: str) -> None:
        async with images._exclusive("k"):
            order.append(name)
            await asyncio.sleep(0.3)
            order.append(name)

    await asyncio.gather(hold(mine, "a"), hold(other, "b"))
    assert order in (["a", "a", "b", "b"], ["b", "b", "a", "a"])
    mine.close()
    other.close()


def test_an_image_that_the_registry_lacks_is_the_tasks_fault() -> None:
    from backends.docker.errors import from_status

    message = "manifest for debian:nope not found: manifest unknown: manifest unknown"
    assert type(from_status(404, message, operation="pull")) is SandboxImageNotFound
    assert type(from_status(0, message, operation="build")) is SandboxImageNotFound
