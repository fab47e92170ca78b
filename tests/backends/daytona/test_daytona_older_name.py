"""The SDK under its older name."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import daytona
import pytest
from controlplanes.daytona import DaytonaPlane

PROGRAM = """
import asyncio, sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

class OnlyTheOlder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "daytona" or name.startswith("daytona."):
            return None
        return PathFinder.find_spec(name, path, target)

sys.meta_path = [finder for finder in sys.meta_path if finder is not PathFinder] + [OnlyTheOlder()]

from backends import SandboxSpec, create_provider, open_sandbox

async def main():
    provider = create_provider("daytona")
    async with open_sandbox(provider, SandboxSpec(image="debian:bookworm-slim", ttl_sec=60)) as sandbox:
        print((await sandbox.execute("echo hello", timeout=20)).output.strip())
    await provider.close()
    from backends.daytona.client import AsyncDaytona
    print(AsyncDaytona.__module__.partition(".")[0])

asyncio.run(main())
"""


@pytest.mark.slow
async def test_an_sdk_that_is_installed_as_daytona_sdk_is_taken(plane: DaytonaPlane, tmp_path: Path) -> None:
    assert daytona.__file__ is not None
    (tmp_path / "daytona_sdk").symlink_to(Path(daytona.__file__).parent)
    path = os.pathsep.join([str(tmp_path), *(each for each in sys.path if each)])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM),
        env={**os.environ, "PYTHONPATH": path},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert out.decode().split() == ["hello", "daytona_sdk"], err.decode()
