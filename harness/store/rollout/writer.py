"""Appends calls to a rollout file. What is on disk is whole at every moment, and grows with the tokens, once each."""

from __future__ import annotations

import os
import threading
from array import array
from pathlib import Path

from harness.store.rollout import frame
from harness.store.rollout.call import SampledCall
from harness.store.rollout.prefix import shared_prefix
from harness.store.rollout.reader import RolloutReader

_REMEMBERED_TOKENS = 1 << 20
"""Tokens of earlier calls that are kept in memory to recognise what a prompt extends; the latest call always is."""

_WORTH_SHARING = 16
"""A shorter common prefix is not worth a reference."""


class RolloutWriter:
    """The only writer of one file, which is created by the first call. May be used from several threads and tasks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls = 0
        """How many calls the file holds."""
        self.with_tokens = 0
        """How many of those hold sampled ids with a log-probability for each."""
        self._lock = threading.Lock()
        self._recent: dict[int, array[int]] = {}
        """What the latest calls read and sampled, by call number; the one used last is the last one."""
        self._handle: int | None = None
        self._end = 0

    def add(self, call: SampledCall) -> None:
        """Append one call. Raises OSError, the file then being what it was, and ValueError for ids that are none."""
        prompt = None if call.prompt_ids is None else frame.int_column(call.prompt_ids)
        completion = None if call.completion_ids is None else frame.int_column(call.completion_ids)
        logprobs = None if call.logprobs is None else frame.float_column(call.logprobs)
        with self._lock:
            if self._handle is None:
                self._open()
            base, shared = self._extends(prompt) if prompt else (None, 0)
            new = None if prompt is None else prompt[shared:]
            self._write(frame.encode(call, base, shared, new, completion, logprobs))
            if prompt is not None:
                self._remember(self.calls, prompt + completion if completion is not None else prompt, base)
            self.calls += 1
            self.with_tokens += completion is not None and logprobs is not None and len(completion) == len(logprobs)

    def close(self) -> None:
        """Release the file. Idempotent."""
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None
            self._recent.clear()

    def _open(self) -> None:
        """Create the file, or go on after the last whole call of one that is there."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, flags, 0o644)
        try:
            if os.fstat(handle).st_size:
                reader = RolloutReader(self.path)
                self.calls = max((number + 1 for number, _ in reader.frames()), default=0)
                self._end = reader.end
                os.ftruncate(handle, self._end)
            else:
                _write_all(handle, frame.FILE_HEADER, 0)
                self._end = len(frame.FILE_HEADER)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def _write(self, data: bytes) -> None:
        assert self._handle is not None
        try:
            _write_all(self._handle, data, self._end)
        except OSError:
            os.ftruncate(self._handle, self._end)
            raise
        self._end += len(data)

    def _extends(self, prompt: array[int]) -> tuple[int | None, int]:
        """The remembered call that the prompt shares most with. The latest ones are asked first."""
        best, most = None, _WORTH_SHARING - 1
        for number, tokens in reversed(self._recent.items()):
            shared = shared_prefix(tokens, prompt)
            if shared > most:
                best, most = number, shared
            if shared == len(tokens):
                break
        return (best, most) if best is not None else (None, 0)

    def _remember(self, number: int, tokens: array[int], base: int | None) -> None:
        if base is not None:
            self._recent[base] = self._recent.pop(base)
        self._recent[number] = tokens
        total = sum(map(len, self._recent.values()))
        for old in list(self._recent):
            if total <= _REMEMBERED_TOKENS or old == number:
                break
            total -= len(self._recent.pop(old))


def _write_all(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written
