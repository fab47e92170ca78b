"""The thread that generates: it takes requests in, steps, and lets new weights in between two steps.

While new weights come in, generations on the old ones either finish there, each whole by one version, beside the new
ones; or go on with the new weights at once: what they hold is read again, and every token keeps the version that
sampled it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch

from trainer.policy.huggingface import HuggingFacePolicy
from trainer.rollout.lane import Lane
from trainer.rollout.sampling import LogprobsMode
from trainer.rollout.sequence import Generation
from trainer.rollout.update import OnUpdate


class QueueFull(Exception):
    """As many requests wait as may."""


class Closed(Exception):
    """The engine has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Attributes:
    max_running: generations that share a step.
    max_waiting: further ones that may wait.
    prefix_bytes: memory for what ended sequences have read.
    on_update: what running generations do when new weights come.
    logprobs_mode: what log-probabilities are of.
    threads: of torch; None is torch's own choice.
    """

    max_running: int = 64
    max_waiting: int = 1024
    prefix_bytes: int = 512 << 20
    on_update: OnUpdate = "finish"
    logprobs_mode: LogprobsMode = "raw"
    threads: int | None = None


class Engine:
    """See the module. Its methods may be called from any thread."""

    def __init__(self, policy: HuggingFacePolicy, version: str, settings: Settings) -> None:
        """Raises UsageError for a model that cannot be served, see Rows."""
        self._settings = settings
        self._lanes = [self._lane(policy, version)]
        self._waiting: deque[Generation] = deque()
        self._orders: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._owed = 0
        self._closing = False
        self.failure: str | None = None
        """What ended it, other than `close`."""
        self._sampled = self._read = self._cached = 0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def version(self) -> str:
        """Of the newest weights."""
        return self._lanes[-1].version

    @property
    def closed(self) -> bool:
        """Whether it takes no more in."""
        return self._closing

    @property
    def policy(self) -> HuggingFacePolicy:
        """The newest weights."""
        return self._lanes[-1].policy

    def submit(self, generation: Generation) -> None:
        """Begin a generation as soon as there is room. Raises QueueFull, and Closed."""
        with self._wake:
            if self._closing:
                raise Closed("the server is shutting down")
            if self._owed >= self._settings.max_running + self._settings.max_waiting:
                raise QueueFull(f"{self._owed} requests are at work or waiting")
            self._owed += 1
            self._orders.append(lambda: self._waiting.append(generation))
            self._wake.notify()

    def abandon(self, generation: Generation) -> None:
        """Nobody waits for it any more: its place is free before the next step. `on_end` is not called."""
        generation.abandoned = True
        with self._wake:
            self._wake.notify()

    def update(self, policy: HuggingFacePolicy, version: str) -> float:
        """Sample with these weights from the next step on; how long the engine stood still for it, in seconds.

        Everything that takes time is done here, in the caller's thread, while the engine works on. Raises UsageError
        for weights that cannot be served, and Closed.
        """
        lane = self._lane(policy, version)
        done: Future[float] = Future()
        self._order(lambda: done.set_result(self._let_in(lane)))
        return done.result()

    def state(self) -> dict[str, Any]:
        """What it is doing."""
        running = sum(len(lane.running) for lane in self._lanes)
        return {
            "policy_version": self.version,
            "versions_at_work": [lane.version for lane in self._lanes],
            "running": running,
            "waiting": max(0, self._owed - running),
            "tokens_sampled": self._sampled,
            "prompt_tokens": self._read,
            "prompt_tokens_cached": self._cached,
        }

    def wait(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def close(self) -> None:
        """End; generations that are left end with an error."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _lane(self, policy: HuggingFacePolicy, version: str) -> Lane:
        return Lane(policy, version, mode=self._settings.logprobs_mode, room=self._settings.prefix_bytes)

    def _order(self, order: Callable[[], None]) -> None:
        with self._wake:
            if self._closing:
                raise Closed("the server is shutting down")
            self._orders.append(order)
            self._wake.notify()

    # What follows runs in the engine's thread.

    def _run(self) -> None:
        if self._settings.threads is not None:
            torch.set_num_threads(self._settings.threads)
        try:
            while not self._closing:
                self._turn()
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self.failure = _told(error)
        finally:
            with self._wake:
                self._closing = True
            for order in self._orders:
                order()
            for each in [*self._waiting, *(each for lane in self._lanes for each in lane.clear())]:
                each.fail("the server is shutting down")
                self._end(each)

    def _turn(self) -> None:
        with self._wake:
            while not (self._orders or self._owed or self._closing):
                self._wake.wait()
            orders = [self._orders.popleft() for _ in range(len(self._orders))]
        for order in orders:
            order()
        self._drop_abandoned()
        self._admit()
        for lane in self._lanes:
            self._step(lane)
        self._lanes = [lane for lane in self._lanes[:-1] if lane.running] + self._lanes[-1:]

    def _step(self, lane: Lane) -> None:
        if not lane.running:
            return
        try:
            ended = lane.step()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next request may go well
            ended = lane.clear()
            for each in ended:
                each.fail(_told(error))
        for each in ended:
            self._end(each)

    def _end(self, generation: Generation) -> None:
        with self._wake:
            self._owed -= 1
        self._sampled += len(generation.logprobs)
        self._read += generation.prompt_length
        self._cached += generation.cached or 0
        generation.on_end(generation)

    def _admit(self) -> None:
        lane = self._lanes[-1]
        room = self._settings.max_running - sum(len(each.running) for each in self._lanes)
        later: list[Generation] = []
        while self._waiting and room > 0:
            generation = self._waiting.popleft()
            try:
                joined = lane.join(generation)
            except Exception as error:  # noqa: BLE001 - as in `_step`: only this one is lost
                generation.fail(_told(error))
                self._end(generation)
                continue
            if joined:
                room -= 1
            else:
                later.append(generation)
        self._waiting.extendleft(reversed(later))

    def _drop_abandoned(self) -> None:
        gone = [each for lane in self._lanes for each in lane.running if each.abandoned]
        for lane in self._lanes:
            for each in [each for each in lane.running if each.abandoned]:
                lane.leave(each)
        left = [each for each in self._waiting if each.abandoned]
        if left:
            self._waiting = deque(each for each in self._waiting if not each.abandoned)
        if gone or left:
            with self._wake:
                self._owed -= len(gone) + len(left)

    def _let_in(self, lane: Lane) -> float:
        began = time.perf_counter()
        if self._settings.on_update == "continue":
            going_on = [each for old in self._lanes for each in old.clear()]
            self._waiting.extendleft(reversed(going_on))
        self._lanes = [old for old in self._lanes if old.running] + [lane]
        return time.perf_counter() - began


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
