"""The folder of a loop.

loop.json            what was asked for
fingerprint.json     what sampling, training and serving have to agree on
ledger.jsonl         what the loop did (`trainer.online.ledger`)
evaluations.jsonl    success on the held-out tasks, a line each
jobs/rollouts/       every attempt that was trained on, or not: a job like any other
jobs/eval-000010/    the held-out tasks under the policy of step 10: the same
weights/000010/      the policy of step 10, as transformers loads it; the newest ones
run.json metrics.jsonl events.jsonl checkpoints/ model/   as `harness train` leaves them
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import UsageError
from harness.store.files import read_json, to_json, write_atomic
from harness.store.layout import JobPaths
from trainer.folder import RunFolder
from trainer.online.config import LoopConfig, parse_loop
from trainer.online.fingerprint import Fingerprint, require_same

_FREE = ("steps", "evaluate", "sandboxes")
"""Settings that a resumed loop may change: they do not change what a step is made of."""


class LoopFolder:
    """See the module."""

    def __init__(self, root: Path) -> None:
        self.root = root = root.resolve()
        self.run = RunFolder(root)
        self.rollouts = JobPaths(root / "jobs" / "rollouts")
        self.weights = root / "weights"
        self.ledger = root / "ledger.jsonl"
        self._request = root / "loop.json"
        self._fingerprint = root / "fingerprint.json"
        self._evaluations = root / "evaluations.jsonl"

    def create(self, config: LoopConfig) -> None:
        """Begin. Raises UsageError for a folder that is in use, or cannot be written."""
        if self._request.exists():
            raise UsageError(f"{self.root} holds a loop: --resume goes on with it, or choose another folder with -o")
        if self.root.exists() and (not self.root.is_dir() or any(self.root.iterdir())):
            raise UsageError(f"{self.root} holds something that is no loop; choose another folder with -o")
        self.run.create(
            {
                "format": "harness-train",
                "version": 1,
                "harness_version": __version__,
                "export": str(self.rollouts.root.resolve()),
                "model": config.model,
                "config": config.training.model_dump(mode="json"),
            }
        )
        self._write(self._request, config.model_dump(mode="json"))

    def take_up(self, config: LoopConfig) -> None:
        """Go on under this request. Raises UsageError where there is no loop, or one of another request."""
        there, asked = self.request().model_dump(mode="json"), config.model_dump(mode="json")
        differing = [name for name in asked if name not in _FREE and there[name] != asked[name]]
        if differing:
            raise UsageError(f"{self.root} was begun with other settings of {', '.join(differing)}")
        self._write(self._request, asked)

    def request(self) -> LoopConfig:
        """What was asked for. Raises UsageError where there is no loop."""
        try:
            document = read_json(self._request)
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.root} holds no loop to resume") from error
        return parse_loop(document, str(self._request))

    def fingerprint(self) -> Fingerprint:
        """What was agreed on; empty before the first agreement."""
        return read_json(self._fingerprint) if self._fingerprint.exists() else {}

    def agree(self, sides: Mapping[str, Fingerprint]) -> None:
        """Hold these sides against each other and against what was agreed on before. Raises Mismatch."""
        agreed = dict(self.fingerprint())
        before = "the loop so far" if agreed else ""
        for side, own in sides.items():
            require_same(agreed, own, before, side)
            agreed.update({name: value for name, value in own.items() if value is not None})
            before = f"{before} or {side}" if before else side
        self._write(self._fingerprint, agreed)

    def evaluated(self) -> list[dict[str, Any]]:
        """The evaluations so far, without a torn last one."""
        found = []
        for line in self._evaluations.read_text(encoding="utf-8").splitlines() if self._evaluations.exists() else ():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def tell_evaluation(self, document: Mapping[str, Any]) -> None:
        """Append one; an earlier one of the same version is replaced."""
        kept = [each for each in self.evaluated() if each["version"] != document["version"]]
        lines = [json.dumps(each, allow_nan=False) + "\n" for each in [*kept, document]]
        write_atomic(self._evaluations, "".join(lines))

    def _write(self, path: Path, document: Mapping[str, Any]) -> None:
        try:
            write_atomic(path, to_json(dict(document)))
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
