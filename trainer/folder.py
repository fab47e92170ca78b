"""The folder of a run: made once, appended to, and taken up again by `--resume`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store.files import read_json, to_json, write_atomic
from trainer.distributed import is_first, wait_for_all
from trainer.measure import Metrics
from trainer.monitor.monitor import Event
from trainer.policy.protocol import Policy

_FREE = ("steps", "checkpoint_every", "keep_checkpoints")
"""Settings that a resumed run may change: they do not change what a step does."""


class RunFolder:
    """See the module."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.checkpoints = root / "checkpoints"
        self._request = root / "run.json"
        self._log = root / "metrics.jsonl"
        self._events = root / "events.jsonl"

    def require_fresh(self) -> None:
        """Raises UsageError for a folder that is in use."""
        if self._request.exists():
            raise UsageError(f"{self._root} holds a run: --resume goes on with it, or choose another folder with -o")
        if self._root.exists() and (not self._root.is_dir() or any(self._root.iterdir())):
            raise UsageError(f"{self._root} holds something that is no run; choose another folder with -o")
        wait_for_all()

    def create(self, request: dict[str, Any]) -> None:
        """Begin. Raises UsageError where that is not possible."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            write_atomic(self._request, to_json(request))
        except OSError as error:
            raise UsageError(f"{self._root} cannot be written: {error.strerror or error}") from error

    def require_same(self, request: dict[str, Any]) -> None:
        """Raises UsageError where there is no run, or one that was asked for something else."""
        try:
            there = read_json(self._request)
        except (OSError, ValueError) as error:
            raise UsageError(f"{self._root} holds no run to resume") from error
        for name in ("export", "model"):
            if there.get(name) != request[name]:
                raise UsageError(f"{self._root} was begun with {name} {there.get(name)}, not {request[name]}")
        before, now = (dict(_flat(each.get("config") or {})) for each in (there, request))
        differing = [
            name
            for name in sorted(before.keys() | now.keys())
            if name not in _FREE and before.get(name) != now.get(name)
        ]
        if differing:
            raise UsageError(f"{self._root} was begun with other settings of {', '.join(differing)}")

    def forget_after(self, step: int) -> None:
        """Drop the log's lines of steps that will be done again, and a torn last one."""
        kept = []
        for line in self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []:
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line)
            except (ValueError, KeyError, TypeError):
                continue
        write_atomic(self._log, "".join(f"{line}\n" for line in kept))

    def log(self, metrics: Metrics) -> None:
        """Append one step."""
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics, allow_nan=False) + "\n")

    def logged(self) -> list[Metrics]:
        """The steps in the log."""
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]

    def tell(self, events: Iterable[Event]) -> None:
        """Append what changed at a step."""
        lines = [json.dumps(event.document(), allow_nan=False) + "\n" for event in events]
        if lines:
            with self._events.open("a", encoding="utf-8") as file:
                file.writelines(lines)

    def tell_again(self, events: Iterable[Event]) -> None:
        """Replace what was told by what follows from the log."""
        write_atomic(self._events, "")
        self.tell(events)

    def save_model(self, policy: Policy) -> Path:
        """Write the result, whole or not at all."""
        target, draft = self._root / "model", self._root / ".model.draft"
        if is_first():
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
        wait_for_all()
        policy.save(draft)
        if is_first():
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
        wait_for_all()
        return target


def _flat(tables: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their dotted names."""
    for name, value in tables.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
