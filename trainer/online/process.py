"""The trainer as a process of its own, so that no step waits for an attempt's bytes and no attempt for a step's.

It may die at any moment: it is started again, goes on from its newest checkpoint, and trains what came after that once
more, which on a CPU gives the same weights to the bit.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError
from trainer.online.fingerprint import Fingerprint, Mismatch
from trainer.online.folder import LoopFolder
from trainer.online.parts import Lease, Trained

_LINE = 1 << 20
_STARTS = 3
"""Starts for one step: what kills the trainer that often will go on killing it."""
_GRACE_SEC = 60.0
"""For the present step and its checkpoint, when the loop ends."""


class TrainerDied(HarnessError):
    """The trainer's process ended again and again."""


class _Ended(Exception):
    """It ended, and may be started again."""


class ProcessTraining:
    """See the module; made by `training_process`. `weights` are the newest, of version `step`."""

    def __init__(self, folder: LoopFolder, leases: Mapping[int, Lease]) -> None:
        self._folder = folder
        self._leases = dict(leases)
        self._process: asyncio.subprocess.Process | None = None
        self.step = 0
        self.weights = Path()
        self.fingerprint: Fingerprint = {}

    async def train(self, lease: Lease, loop: Mapping[str, float]) -> Trained:
        """One step. Raises Mismatch, UsageError, and TrainerDied."""
        self._leases[lease.step] = lease
        for _ in range(_STARTS):
            try:
                return await self._step(lease, loop)
            except _Ended:
                with suppress(_Ended):
                    await self.begin(upto=lease.step - 1)
        raise TrainerDied(f"the trainer's process ended {_STARTS} times in step {lease.step}")

    async def begin(self, *, upto: int) -> None:
        """Start the process and bring it to this step."""
        await self.kill()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trainer.online.worker", str(self._folder.root)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"OMP_WAIT_POLICY": "passive", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            limit=_LINE,
            start_new_session=True,  # Ctrl-C is the loop's to handle
        )
        ready = await self._answer()
        self.step, self.weights = ready["step"], Path(ready["weights"])
        self.fingerprint = ready["fingerprint"]
        self._leases = {step: lease for step, lease in self._leases.items() if step > self.step}
        for step in range(self.step + 1, upto + 1):
            await self._step(self._leases[step], {})

    async def finish(self, *, done: bool) -> None:
        """Let it leave a checkpoint, and the model where the last step is done."""
        with suppress(_Ended, TimeoutError):
            async with asyncio.timeout(_GRACE_SEC):
                await self._ask({"finish": done})

    async def kill(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _step(self, lease: Lease, loop: Mapping[str, float]) -> Trained:
        answer = await self._ask({"lease": lease.document(), "loop": dict(loop)})
        self.step, self.weights = answer["step"], Path(answer["weights"])
        return Trained(step=self.step, weights=self.weights, metrics=answer["metrics"], halt=answer["halt"])

    async def _ask(self, document: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None:
            raise _Ended
        process.stdin.write(json.dumps(document).encode() + b"\n")
        try:
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _Ended from None
        return await self._answer()

    async def _answer(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise _Ended
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise (Mismatch if answer["mismatch"] else UsageError)(answer["error"])
        return answer


@asynccontextmanager
async def training_process(folder: LoopFolder, leases: Mapping[int, Lease]) -> AsyncIterator[ProcessTraining]:
    """The trainer, with every leased step done. Raises UsageError for a request that cannot be, and TrainerDied."""
    training = ProcessTraining(folder, leases)
    try:
        try:
            await training.begin(upto=max(leases, default=0))
        except _Ended:
            raise TrainerDied("the trainer's process ended before it began") from None
        yield training
    finally:
        await training.kill()
