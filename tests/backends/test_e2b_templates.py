"""Templates: what a Dockerfile or an image becomes, how often it is built, and how a build fails."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from controlplanes.e2b import E2BPlane, e2b_plane

from backends import SandboxProvider, SandboxSpec, create_provider
from backends.errors import SandboxBuildError, SandboxTimeout, SandboxUnsupported
from backends.lifecycle import open_sandbox
from backends.remote.once import folder_digest
from backends.spec import NetworkMode, Resources


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


def make_spec(folder: Path, dockerfile: str, **more: Any) -> SandboxSpec:
    (folder / "Dockerfile").write_text(dockerfile)
    return SandboxSpec(**{"build_dir": folder, **more})


async def test_files_steps_user_and_directory_of_a_dockerfile_are_there(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "x").write_text("content\n")
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "run.sh").chmod(0o755)
    spec = make_spec(
        tmp_path,
        "FROM debian:bookworm-slim\nARG where=/srv/app\nWORKDIR $where\nCOPY data/ ./data/\nCOPY run.sh /opt/tools/\n"
        "ENV MODE=fast\nRUN echo made >made.txt\nUSER nobody\nCMD touch /srv/app/started\n",
    )
    async with open_sandbox(provider, spec) as sandbox:
        assert (sandbox.workdir, sandbox.user) == ("/srv/app", "nobody")
        response = await sandbox.execute("cat data/deep/x made.txt; /opt/tools/run.sh; echo $MODE; ls", timeout=10)
        assert response.stdout.decode().split() == ["content", "made", "ran", "fast", "data", "made.txt"]
    (template,) = plane.templates.values()
    assert "startCmd" not in template.request


async def test_without_user_and_workdir_commands_are_root_s_in_the_root_folder(
    provider: SandboxProvider, tmp_path: Path
) -> None:
    async with open_sandbox(provider, make_spec(tmp_path, "FROM debian:bookworm-slim\n")) as sandbox:
        assert (sandbox.workdir, sandbox.user) == ("/", "root")


async def test_an_image_alone_tells_where_its_commands_start(provider: SandboxProvider, plane: E2BPlane) -> None:
    async with open_sandbox(provider, SandboxSpec(image="debian:bookworm-slim")) as sandbox:
        assert (sandbox.user, (await sandbox.execute("pwd", timeout=5)).stdout.decode().strip()) == (
            "root",
            sandbox.workdir,
        )
    assert [template.image for template in plane.templates.values()] == ["debian:bookworm-slim"]


async def test_one_build_serves_all_who_wait_and_all_who_come_later(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    spec = make_spec(tmp_path, "FROM debian:bookworm-slim\nWORKDIR /app\n")
    for sandbox in await asyncio.gather(*(provider.start(spec) for _ in range(6))):
        await sandbox.stop()
    other = create_provider("e2b", creates_per_sec=1000)
    async with open_sandbox(other, spec):
        pass
    await other.close()
    assert plane.calls.count("POST /v3/templates") == 1


async def test_two_processes_that_need_the_same_template_build_it_once(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    other = create_provider("e2b", creates_per_sec=1000)  # shares nothing with the first but this host
    spec = make_spec(tmp_path, "FROM debian:bookworm-slim\nWORKDIR /app\n")

    async def use(one: SandboxProvider) -> None:
        async with open_sandbox(one, spec):
            pass

    try:
        await asyncio.gather(use(provider), use(other))
    finally:
        await other.close()
    assert plane.calls.count("POST /v3/templates") == 1


async def test_size_is_part_of_the_template(provider: SandboxProvider, plane: E2BPlane, tmp_path: Path) -> None:
    for resources in (Resources(), Resources(cpus=1.5, memory_mb=1023), Resources(cpus=1.5, memory_mb=1023)):
        spec = make_spec(tmp_path, "FROM debian:bookworm-slim\n", resources=resources)
        async with open_sandbox(provider, spec):
            pass
    sizes = [(each.request.get("cpuCount"), each.request.get("memoryMB")) for each in plane.templates.values()]
    assert sizes == [(None, None), (2, 1024)]


@pytest.mark.parametrize("network", list(NetworkMode))
async def test_the_network_is_closed_unless_asked_for(
    network: NetworkMode, provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    async with open_sandbox(provider, make_spec(tmp_path, "FROM debian:bookworm-slim\n", network=network)):
        assert plane.created[-1]["allow_internet_access"] is (network is NetworkMode.FULL)


async def test_a_build_that_fails_carries_its_log_and_is_not_tried_again(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    spec = make_spec(tmp_path, "FROM debian:bookworm-slim\nRUN echo so far so good; exit 9\n")
    results = await asyncio.gather(*(provider.start(spec) for _ in range(4)), return_exceptions=True)
    assert {type(result) for result in results} == {SandboxBuildError}
    assert isinstance(results[0], SandboxBuildError)
    assert "so far so good" in results[0].log and not results[0].retryable
    assert plane.calls.count("POST /v3/templates") == 1


async def test_a_server_error_while_building_is_infrastructure_and_tried_again(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    plane.faults.add("POST /v3/templates", status=500)
    spec = make_spec(tmp_path, "FROM debian:bookworm-slim\n")
    with pytest.raises(Exception, match="500") as caught:
        await provider.start(spec)
    assert not isinstance(caught.value, SandboxBuildError)
    async with open_sandbox(provider, spec):
        pass


async def test_an_alias_whose_build_failed_elsewhere_is_built_again_once_for_all(
    provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    spec = make_spec(tmp_path, "FROM debian:bookworm-slim\n")
    async with open_sandbox(provider, spec):
        pass
    plane.early_aliases = True
    for template in plane.templates.values():
        template.status = "error"
    for sandbox in await asyncio.gather(*(provider.start(spec) for _ in range(3))):
        await sandbox.stop()
    assert plane.calls.count("POST /v3/templates") == 2


@pytest.mark.case("A13")
async def test_a_build_that_never_ends_is_a_timeout(provider: SandboxProvider, plane: E2BPlane, tmp_path: Path) -> None:
    plane.faults.add("GET /templates/.*/status", hang=True)
    with pytest.raises(SandboxTimeout, match="not ready after 1 s"):
        await provider.start(make_spec(tmp_path, "FROM debian:bookworm-slim\n", build_timeout_sec=1.0))


@pytest.mark.parametrize(
    ("dockerfile", "said"),
    [
        ("FROM a AS x\nFROM b\nCOPY --from=x /a /b\n", "Multi-stage"),
        ('FROM a\nSHELL ["/bin/zsh", "-c"]\n', "SHELL .line 2"),
    ],
)
async def test_what_e2b_cannot_build_is_told_before_anything_is_created(
    dockerfile: str, said: str, provider: SandboxProvider, plane: E2BPlane, tmp_path: Path
) -> None:
    with pytest.raises(SandboxUnsupported, match=f"{said}.*--backend docker"):
        await provider.start(make_spec(tmp_path, dockerfile))
    assert "POST /v3/templates" not in plane.calls


async def test_a_file_that_is_not_there_is_a_build_error(provider: SandboxProvider, tmp_path: Path) -> None:
    with pytest.raises(SandboxBuildError):
        await provider.start(make_spec(tmp_path, "FROM debian:bookworm-slim\nCOPY nothing /x\n"))


async def test_the_sdk_s_remarks_stay_off_standard_output(
    provider: SandboxProvider, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_sandbox(provider, make_spec(tmp_path, "FROM debian:bookworm-slim\nHEALTHCHECK NONE\n")):
        pass
    assert capsys.readouterr().out == ""


def test_a_digest_depends_on_all_that_is_sent_and_on_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM a\n")
    (tmp_path / "x").write_text("1")
    first = folder_digest(tmp_path)
    os.utime(tmp_path / "x", (0, 0))
    assert folder_digest(tmp_path) == first
    seen = {first}
    (tmp_path / "x").write_text("2")
    seen.add(folder_digest(tmp_path))
    (tmp_path / "x").chmod(0o700)
    seen.add(folder_digest(tmp_path))
    (tmp_path / "y").symlink_to("x")
    seen.add(folder_digest(tmp_path))
    (tmp_path / "z").mkdir()
    seen.add(folder_digest(tmp_path))
    assert len(seen) == 5


def test_a_folder_without_a_dockerfile_is_a_build_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxBuildError, match="holds no Dockerfile"):
        folder_digest(tmp_path)
