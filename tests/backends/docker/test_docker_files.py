"""Trees and files into a container and out of it again."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from backends import SandboxDiskFull, SandboxError
from backends.docker.sandbox import DockerSandbox

pytestmark = pytest.mark.docker

Start = Callable[..., Awaitable[DockerSandbox]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    (root / "sub" / "blob").write_bytes(bytes(range(256)) * 12_000)
    (root / "sub" / "empty").touch()
    (root / "link").symlink_to("sub/blob")
    return root


async def test_a_tree_goes_in_and_comes_out_unchanged(sandbox: DockerSandbox, tree: Path, tmp_path: Path) -> None:
    await sandbox.upload(tree, "/deep/er/tests")
    response = await sandbox.execute("/deep/er/tests/run.sh; stat -c '%a %u' /deep/er/tests/run.sh", timeout=20)
    assert response.stdout == b"ran\n755 0\n"
    out = tmp_path / "out"
    assert await sandbox.download("/deep/er/tests", out) == []
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*")) == [
        "link", "run.sh", "sub", "sub/blob", "sub/empty",
    ]  # fmt: skip
    assert (out / "link").read_bytes() == (tree / "sub" / "blob").read_bytes()
    assert stat.S_IMODE((out / "run.sh").stat().st_mode) == 0o755


async def test_one_file_goes_in_and_comes_out(sandbox: DockerSandbox, tree: Path, tmp_path: Path) -> None:
    await sandbox.upload(tree / "run.sh", "new/name.sh")
    assert (await sandbox.execute("/app/new/name.sh", timeout=20)).stdout == b"ran\n"
    await sandbox.download("new/name.sh", tmp_path / "got")
    assert (tmp_path / "got").read_text() == "#!/bin/sh\necho ran\n"


@pytest.mark.case("A5")
async def test_bytes_are_exact(sandbox: DockerSandbox, tmp_path: Path) -> None:
    await sandbox.write("b", b"\xff\x00\xc0")
    assert await sandbox.read("b") == b"\xff\x00\xc0"
    await sandbox.download("b", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"\xff\x00\xc0"


async def test_files_can_be_edited_listed_and_searched(sandbox: DockerSandbox) -> None:
    await sandbox.write("src/one.py", b"x = 1\ny = 1\n")
    assert await sandbox.edit("src/one.py", "x = 1", "x = 2") == 1
    assert [info.path for info in await sandbox.ls("src")] == ["/app/src/one.py"]
    assert [(match.line, match.text) for match in await sandbox.grep("^x", "src")] == [(1, "x = 2")]
    assert [info.path for info in await sandbox.glob("**/*.py")] == ["/app/src/one.py"]


async def test_what_is_missing_is_not_found(sandbox: DockerSandbox, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await sandbox.read("/nope")
    with pytest.raises(FileNotFoundError):
        await sandbox.download("/nope", tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        await sandbox.upload(tmp_path / "nope", "/x")


@pytest.mark.case("A15")
async def test_files_that_root_closed_to_all_are_the_callers(sandbox: DockerSandbox, tmp_path: Path) -> None:
    await sandbox.execute(
        "umask 077; mkdir -p -m 700 /logs/agent/p; echo x >/logs/agent/p/f; chmod 0 /logs/agent/p", timeout=20
    )
    await sandbox.download("/logs", tmp_path / "logs")
    file = tmp_path / "logs" / "agent" / "p" / "f"
    assert file.read_text() == "x\n"
    assert file.stat().st_uid == os.getuid() and file.stat().st_mode & 0o600 == 0o600


@pytest.mark.case("H1")
async def test_links_out_of_the_sandbox_are_dropped_and_named(sandbox: DockerSandbox, tmp_path: Path) -> None:
    await sandbox.execute(
        "mkdir -p /logs/agent /logs/artifacts; ln -s /etc/passwd /logs/agent/x; "
        "ln -s ../../../../etc /logs/artifacts/d; mkfifo /logs/pipe; echo fine >/logs/ok",
        timeout=20,
    )
    dropped = await sandbox.download("/logs", tmp_path / "logs")
    assert len(dropped) == 3
    assert not any(path.is_symlink() for path in (tmp_path / "logs").rglob("*"))
    assert (tmp_path / "logs" / "ok").read_text() == "fine\n"


@pytest.mark.slow
async def test_a_download_larger_than_allowed_is_refused(sandbox: DockerSandbox, tmp_path: Path) -> None:
    await sandbox.execute("mkdir /big; truncate -s 10G /big/sparse", timeout=20)
    with pytest.raises(SandboxError, match="larger than 1000000 bytes"):
        await sandbox.download("/big", tmp_path / "big", max_bytes=1_000_000)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) <= 2_000_000


async def test_an_image_without_tar_still_takes_uploads(sandbox: DockerSandbox, tree: Path) -> None:
    await sandbox.execute("rm $(command -v tar)", timeout=20)
    await sandbox.upload(tree, "/tests")
    assert (await sandbox.execute("/tests/run.sh", timeout=20)).stdout == b"ran\n"


async def test_a_full_disk_is_told_from_other_trouble(sandbox: DockerSandbox, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (80 << 20))
    with pytest.raises(SandboxDiskFull):
        await sandbox.upload(tmp_path / "big", "/dev/shm/big")


@pytest.mark.slow
async def test_a_large_tree_does_not_sit_in_memory(sandbox: DockerSandbox, tmp_path: Path) -> None:
    import resource

    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(300 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await sandbox.upload(big, "/big")
    await sandbox.download("/big", tmp_path / "back")
    assert (tmp_path / "back").stat().st_size == 300 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
