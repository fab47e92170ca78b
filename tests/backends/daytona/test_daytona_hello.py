"""The bundled suite through `harness run --backend daytona`, in a process of its own, as on every other backend."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import REPO, by_task, environment
from controlplanes.daytona import API_KEY, DaytonaPlane

PROGRAM = (
    "import sys, controlplanes.plain_storage as p; p.allow_http(); from harness.cli.main import main; sys.exit(main())"
)


async def harness(
    plane: DaytonaPlane, *argv: str | Path, env: Mapping[str, str] | None = None
) -> tuple[int | None, str, str]:
    paths = f"{REPO}:{REPO / 'tests'}:{REPO / 'tests' / 'backends'}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, *map(str, argv)),
        env=environment({**plane.env, "PYTHONPATH": paths, **(env or {})}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_the_oracle_solves_the_hello_suite_and_nothing_is_left(plane: DaytonaPlane, tmp_path: Path) -> None:
    chosen = ("--suite", "hello", "--agent", "oracle", "--backend", "daytona")
    code, out, err = await harness(plane, "run", *chosen, "--jobs-dir", tmp_path, "--name", "job")
    assert (code, err) == (0, ""), out
    found = by_task(tmp_path / "job")
    assert {task: record["reward"] for task, record in found.items()} == dict.fromkeys(found, 1.0)
    assert len(found) == 7
    assert plane.live == []
    assert all(body["labels"]["harness.job"] for body in plane.created)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert API_KEY.encode() not in path.read_bytes(), path


async def test_missing_credentials_are_one_line_that_says_what_to_set(plane: DaytonaPlane, tmp_path: Path) -> None:
    chosen = ("--suite", "hello", "--agent", "oracle", "--backend", "daytona")
    code, out, err = await harness(plane, "run", *chosen, "--jobs-dir", tmp_path, env={"DAYTONA_API_KEY": ""})
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "no credentials for Daytona" in err
    assert "set DAYTONA_API_KEY" in err
    assert plane.calls.total() == 0
    assert list(tmp_path.iterdir()) == []
