"""The bundled suite in Modal sandboxes, as a user runs it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from command_line import by_task, command, environment
from controlplanes.modal import ModalPlane

HELLO = ("--suite", "hello")
SOLVED = {f"hello/{name}" for name in ("backup-repair", "fix-slugify", "greeting", "ledger", "needle")} | {
    "hello/order-totals",
    "hello/roman",
}


async def run(plane: ModalPlane, folder: Path, *options: str) -> dict[str, float | None]:
    """Rewards by task of a `harness run`, in a process that knows of Modal what its environment says."""
    argv = command("run", *options, "--backend", "modal", "--jobs-dir", folder, "--name", "job")
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env=environment(plane.env),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, ""), out.decode()
    return {task: record["reward"] for task, record in by_task(folder / "job").items()}


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
async def test_the_suite_scores_as_it_does_locally(
    agent: str, reward: float, plane: ModalPlane, tmp_path: Path
) -> None:
    assert await run(plane, tmp_path, *HELLO, "--agent", agent) == dict.fromkeys(SOLVED, reward)
    assert plane.alive == []
    assert plane.builds.total() == len(plane.builds), "an image was built twice"


@pytest.mark.slow
async def test_only_the_one_sdk_is_imported(plane: ModalPlane, tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from backends import create_provider; p = create_provider('modal');"
        "print(asyncio.run(p.check()).works, *sorted({'e2b', 'daytona', 'docker', 'aiodocker'} & set(sys.modules)))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, env=environment(plane.env), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode() == "True\n"
