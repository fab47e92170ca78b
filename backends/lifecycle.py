"""Opening a sandbox so that it is always closed, and finding those whose owner died.

Every sandbox carries labels that say who owns it. A reaper removes only sandboxes that carry them, whose owner is
provably dead, and that are old enough; what it cannot prove it leaves alone.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path

from backends.errors import SandboxError
from backends.protocol import SandboxBackendProtocol, SandboxProvider
from backends.spec import SandboxInfo, SandboxSpec

OWNER = "harness.owner"
JOB = "harness.job"
TRIAL = "harness.trial"

REAP_MARGIN_SEC = 3600.0
"""Orphans younger than this are left to their time to live, in case their owner is on another host."""

_STOP_TIMEOUT_SEC = 60.0


def process_start_ticks(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None if it is gone. Tells a process from its pid's heir."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


def _boot_id() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def owner_label() -> str:
    """Identifies this process: boot, pid and start time."""
    return _label_of(os.getpid())


@lru_cache(maxsize=1)
def _label_of(pid: int) -> str:
    return f"{_boot_id()}:{pid}:{process_start_ticks(pid)}"


def owner_is_dead(label: str) -> bool:
    """Whether the labelled owner is provably dead. False for an owner on another machine or an unreadable label."""
    boot, _, rest = label.partition(":")
    pid, _, ticks = rest.partition(":")
    if boot != _boot_id() or not pid.isdigit():
        return False
    return process_start_ticks(int(pid)) != ticks


async def reap(
    provider: SandboxProvider,
    labels: Mapping[str, str] | None = None,
    *,
    min_age_sec: float = REAP_MARGIN_SEC,
    now: float | None = None,
) -> list[SandboxInfo]:
    """Remove the labelled sandboxes whose owner is dead and that are older than `min_age_sec`; return them."""
    now = time.time() if now is None else now
    orphans = [
        info
        for info in await provider.list(labels)
        if owner_is_dead(info.labels.get(OWNER, "")) and now - info.created_at >= min_age_sec
    ]
    for info in orphans:
        await provider.remove(info.id)
    return orphans


@asynccontextmanager
async def open_sandbox(provider: SandboxProvider, spec: SandboxSpec) -> AsyncIterator[SandboxBackendProtocol]:
    """A started sandbox that is stopped on every way out, cancellation included."""
    sandbox = await provider.start(spec)
    try:
        yield sandbox
    finally:
        await finish(sandbox.stop(), timeout=_STOP_TIMEOUT_SEC)


async def finish(work: Awaitable[None], *, timeout: float) -> None:
    """Run a clean-up to its end, at most `timeout` seconds, even if the caller is cancelled meanwhile.

    A clean-up that fails is left to the time to live and the reaper: it must not hide what happened before it.
    """
    task = asyncio.ensure_future(work)
    deadline = asyncio.get_running_loop().time() + timeout
    cancelled = False
    while not task.done():
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            task.cancel()
            break
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    with suppress(SandboxError, asyncio.CancelledError, OSError):
        if task.done():
            task.result()
    if cancelled:
        raise asyncio.CancelledError
