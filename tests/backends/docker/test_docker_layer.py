"""Layers: software that is put on an image once, however many sandboxes wait for it, and changes nothing else."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from backends import Layer, NetworkMode, SandboxLayerError, SandboxSpec, SandboxTimeout
from backends.docker.layer import last_words, layer_key, write_context
from backends.docker.provider import DockerProvider
from backends.docker.sandbox import DockerSandbox


@pytest.fixture
async def forgotten(provider: DockerProvider) -> AsyncIterator[None]:
    """Removes the images that a test made."""
    yield
    async with provider._engine.call("images") as client:
        for reference in provider._images._known:
            if reference.startswith("harness-"):
                await client.images.delete(reference, force=True)


Start = Callable[..., Awaitable[DockerSandbox]]
IMAGE = "debian:bookworm-slim"
MARK = secrets.token_hex(4)


def install(script: str, **fields: object) -> Layer:
    """A layer that nobody has installed before."""
    return Layer(**{"name": "tool 1", "script": f": {MARK}\n{script}", **fields})  # type: ignore[arg-type]


def test_a_layer_is_told_by_its_script_and_its_image_alone(tmp_path: Path) -> None:
    one, same = install("a"), install("a", env={"PIP_INDEX_URL": "x"}, timeout_sec=5.0)
    assert layer_key(one, "sha256:1") == layer_key(same, "sha256:1")
    assert len({layer_key(one, "sha256:1"), layer_key(one, "sha256:2"), layer_key(install("b"), "sha256:1")}) == 3


def test_a_layer_keeps_the_image_s_own_user_and_cannot_replace_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("x")
    (tmp_path / "one").mkdir()
    write_context(tmp_path / "one", install("a", env={"A": "it's"}), base="sha256:1", user="node")
    lines = (tmp_path / "one" / "Dockerfile").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["FROM", "USER", "COPY", "RUN", "USER"]
    assert lines[1] == "USER root" and lines[-1] == "USER node"
    (tmp_path / "two").mkdir()
    with pytest.raises(ValueError, match=r"env\.sh"):
        write_context(tmp_path / "two", install("a", files={"env.sh": tmp_path / "ca"}), base="x", user="")


def test_the_last_words_are_the_script_s_own() -> None:
    said = "fetching\nno such package\n"
    engine = "\x1b[0mRemoving intermediate container 1\nThe command '/bin/sh -c x' returned 3\n"
    log = f"Step 3/3 : RUN x\n ---> Running in 1\n{said}{engine}"
    assert last_words(log) == "no such package"


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.usefixtures("forgotten")
async def test_sandboxes_that_wait_for_one_layer_have_it_installed_once(start: Start, tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("trusted\n")
    layer = install(
        "mkdir /opt/tool; cat settings > /opt/tool/out; date +%N > /opt/tool/when\n"
        'echo "$WHO $(id -u)" >> /opt/tool/out',
        env={"WHO": "it's me"},
        files={"settings": tmp_path / "settings"},
    )
    build = tmp_path / "build"
    build.mkdir()
    (build / "Dockerfile").write_text(
        f"FROM {IMAGE}\nRUN useradd -m worker\nENV KEPT=yes\nWORKDIR /work\nUSER worker\n"
    )
    boxes = await asyncio.gather(*(start(build_dir=build, workdir=None, layer=layer) for _ in range(3)))
    said = {
        (
            await box.execute(
                "cat /opt/tool/out /opt/tool/when; pwd; id -un; echo $KEPT $WHO; ls -d /.harness*", timeout=30
            )
        ).output
        for box in boxes
    }
    assert len(said) == 1
    lines = said.pop().splitlines()
    assert lines[:2] == ["trusted", "it's me 0"]
    assert lines[3:6] == ["/work", "worker", "yes"]
    started = time.monotonic()
    again = await start(build_dir=build, workdir=None, layer=layer)
    assert time.monotonic() - started < 30
    assert (await again.execute("cat /opt/tool/out", timeout=30)).exit_code == 0


@pytest.mark.docker
@pytest.mark.slow
async def test_a_layer_that_cannot_be_installed_is_not_the_task_s_fault(start: Start) -> None:
    with pytest.raises(SandboxLayerError, match=r"^tool 1 could not be installed: no such package$") as caught:
        await start(image=IMAGE, layer=install("echo no such package >&2; exit 3"))
    assert caught.value.retryable and "no such package" in caught.value.log
    with pytest.raises(SandboxTimeout, match="tool 1 was not installed after 2 s"):
        await start(image=IMAGE, layer=install("sleep 9876", timeout_sec=2.0))


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.usefixtures("bridge")
async def test_a_sandbox_with_a_network_reaches_what_listens_on_its_host_address_and_no_other(start: Start) -> None:
    closed = await start(image=IMAGE)
    assert closed.host_address is None
    box = await start(image=IMAGE, network=NetworkMode.FULL)
    if box.host_address is None:
        pytest.skip("this engine's bridge is on another machine")

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(greet, box.host_address, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        command = f"exec 3<>/dev/tcp/{box.host_address}/{port}; cat <&3"
        assert (await box.execute(f"bash -c '{command}'", timeout=30)).stdout == b"hello\n"


def test_a_spec_without_a_layer_has_none() -> None:
    assert SandboxSpec(image=IMAGE).layer is None
