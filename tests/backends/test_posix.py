"""File operations over a real shell of this machine: dash or bash with coreutils, and busybox where there is one."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends import ExecuteResponse, SandboxDiskFull, SandboxError, SandboxTimeout, posix


class Shell:
    """`execute` on the host itself."""

    def __init__(self, argv: list[str], env: Mapping[str, str]) -> None:
        self.argv = argv
        self.env = env

    async def __call__(self, command: str, *, stdin: bytes | None = None, max_output: int, **_: Any) -> ExecuteResponse:
        process = await asyncio.create_subprocess_exec(
            *self.argv,
            "-c",
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
        )
        out, err = await process.communicate(stdin or b"")
        return ExecuteResponse(
            stdout=out[:max_output],
            stdout_size=len(out),
            stderr=err,
            stderr_size=len(err),
            exit_code=process.returncode,
        )


@pytest.fixture(scope="module", params=["coreutils", "busybox"])
def execute(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    if request.param == "coreutils":
        return Shell(["/bin/sh"], {"PATH": "/usr/bin:/bin"})
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("no busybox here")
    tools = tmp_path_factory.mktemp("busybox")
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        (tools / name).symlink_to(busybox)
    return Shell([busybox, "sh"], {"PATH": str(tools)})


async def test_read_and_write_are_exact_and_make_parents(execute: Shell, tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000
    await posix.write(execute, f"{tmp_path}/a/b c/x", data, mode=0o600)
    assert (tmp_path / "a/b c/x").read_bytes() == data
    assert (tmp_path / "a/b c/x").stat().st_mode & 0o777 == 0o600
    assert await posix.read(execute, f"{tmp_path}/a/b c/x") == data
    assert await posix.read(execute, f"{tmp_path}/a/b c/x", max_bytes=3) == data[:3]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing", FileNotFoundError),
        ("missing/deeper", FileNotFoundError),
        ("folder", IsADirectoryError),
        ("file/below", NotADirectoryError),
        ("fifo", PermissionError),
        ("dangling", FileNotFoundError),
    ],
)
async def test_reading_what_cannot_be_read(execute: Shell, tmp_path: Path, path: str, error: type[OSError]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    subprocess.run(["mkfifo", str(tmp_path / "fifo")], check=True)
    with pytest.raises(error, match=path):
        await posix.read(execute, f"{tmp_path}/{path}")


@pytest.mark.parametrize(
    ("path", "error"),
    [("/proc/nothing/here", FileNotFoundError), ("/dev/full", SandboxDiskFull), ("/proc/version", PermissionError)],
)
async def test_writing_where_the_kernel_refuses(execute: Shell, path: str, error: type[Exception]) -> None:
    with pytest.raises((error, SandboxError)):
        await posix.write(execute, path, b"x" * 100_000)


async def test_a_file_operation_that_hangs_is_infrastructure() -> None:
    async def hang(command: str, **_: Any) -> ExecuteResponse:
        return ExecuteResponse(exit_code=None, timed_out=True, duration_sec=60.0)

    with pytest.raises(SandboxTimeout, match="/x took over 60 s"):
        await posix.read(hang, "/x")


async def test_grep_skips_binaries_and_numbers_lines(execute: Shell, tmp_path: Path) -> None:
    (tmp_path / "a:7:b.txt").write_text("one\nNEEDLE: two\n")
    (tmp_path / "c.py").write_text("NEEDLE\n" * 5)
    (tmp_path / "long").write_text("NEEDLE" + "x" * 10_000 + "\n")
    found = await posix.grep(execute, "NEEDLE", str(tmp_path))
    assert [(Path(match.path).name, match.line) for match in found] == [
        ("a:7:b.txt", 2), *(("c.py", n) for n in range(1, 6)), ("long", 1)
    ]  # fmt: skip
    assert len(found[-1].text) == posix.MAX_LINE_BYTES
    with pytest.raises(ValueError, match="bad pattern"):
        await posix.grep(execute, "(", str(tmp_path))


async def test_grep_of_a_single_file_and_with_odd_patterns(execute: Shell, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("-n 'quoted' $HOME\n")
    for pattern in ("-n", "'quoted'", r"\$HOME", "^-"):
        assert len(await posix.grep(execute, pattern, f"{tmp_path}/x")) == 1, pattern


async def test_unreadable_and_vanished_entries_do_not_spoil_a_listing(execute: Shell, tmp_path: Path) -> None:
    for n in range(500):
        (tmp_path / f"f{n:03}").touch()
    assert len(await posix.ls(execute, str(tmp_path))) == 500
    assert len(await posix.glob(execute, "f0*", str(tmp_path))) == 100


def test_paths_are_made_absolute_without_following_parents() -> None:
    assert posix.absolute("a//b/./c", "/app") == "/app/a/b/c"
    assert posix.absolute("../x", "/app") == "/app/../x"
    assert posix.absolute("//x/", "/app") == "/x"
    assert posix.absolute(".", "/") == "/"
    with pytest.raises(ValueError, match="NUL"):
        posix.absolute("a\0b", "/")


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "x/y/b.py"], ["x/b.txt"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "other/a"]),
        ("[!a]?", ["bc"], ["ac", "/c", "b/"]),
        ("[]a-c]", ["]", "b"], ["d"]),
        ("a[b", ["a[b"], ["ab"]),
        ("a**b", ["axxb"], ["a/b"]),
    ],
)
def test_glob_patterns(pattern: str, fits: list[str], does_not: list[str]) -> None:
    regex = re.compile(posix.glob_regex(pattern))
    assert [path for path in fits + does_not if regex.fullmatch(path)] == fits


@given(st.text(alphabet="ab/*?[]!^-\\.{}(|", max_size=12))
def test_every_pattern_is_a_valid_expression_or_a_value_error(pattern: str) -> None:
    try:
        re.compile(posix.glob_regex(pattern))
    except ValueError as error:
        assert "pattern" in str(error)
