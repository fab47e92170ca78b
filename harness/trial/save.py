"""Putting an execution's record on disk: `result.json` last, since it is what says that the execution is over."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import strict_json
from harness.failures import HOST_DISK_FULL, NO_SPACE
from harness.records import TrialResult
from harness.store.files import flush, to_json, write_atomic
from harness.store.layout import TrialPaths
from harness.trial.record import failure_of

_disk = ThreadPoolExecutor(max_workers=2, thread_name_prefix="record")
"""Waits for the disk, so that the loop does not; two threads, for more would only wait for each other."""


async def save_result(result: TrialResult, paths: TrialPaths) -> None:
    """Write the record without blocking the loop, and to the end even if cancelled.

    Raises OSError when not even the shortest record fits on the disk: the attempt is then owed again.
    """
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(_disk, _save, result, paths, _text(result)))


def _text(result: TrialResult) -> str:
    """The record as JSON; what JSON cannot hold (a lone surrogate, an agent's odd metadata) is replaced, not fatal."""
    try:
        return result.model_dump_json(indent=2) + "\n"
    except ValueError:
        return to_json(strict_json.clean(result.model_dump())[0])


def _save(result: TrialResult, paths: TrialPaths, text: str) -> None:
    try:
        if result.exception_info is not None:
            trace = result.exception_info.exception_traceback or result.exception_info.exception_message
            write_atomic(paths.exception, trace + "\n", durable=False)
        for step in [None, *(step.step_name for step in result.step_results or ())]:
            flush(paths.trajectory(step))
            flush(paths.rollout(step))
        write_atomic(paths.result, text)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        _make_room(paths.root)
        result.outcome, result.reward, result.reward_valid = HOST_DISK_FULL.outcome, None, False
        result.failure = failure_of(HOST_DISK_FULL, "no space left on the host for the record")
        result.exception_info = None
        write_atomic(paths.result, _text(result))


def _make_room(folder: Path) -> None:
    """Give up this execution's own bulk, so that its record fits. What other executions wrote is never touched."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
