"""Reads a rollout file back, call by call; what is damaged is told and does not hide the rest."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

from harness.store.rollout import frame
from harness.store.rollout.call import SampledCall
from harness.store.rollout.frame import Frame


class RolloutReader:
    """One pass over one file. Prompts are rebuilt as they are asked for, and only what later ones extend is kept.

    Attributes:
        findings: one line for each frame that could not be read, with its number and the byte where it begins.
        end: the byte after the last whole frame that was read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.findings: list[str] = []
        self.end = 0

    def __iter__(self) -> Iterator[SampledCall]:
        """The calls in the order in which they were added, with `array` columns.

        Raises OSError, and ValueError for a file that is no rollout file, or of a later version.
        """
        last_use = self._last_uses()
        kept: dict[int, array[int]] = {}
        for number, each in self.frames():
            prompt = None
            if each.new is not None:
                base = each.base
                if base is None:
                    prompt = each.new
                elif base in kept and 0 <= each.shared <= len(kept[base]):
                    prompt = kept[base][: each.shared] + each.new
                else:
                    self.findings.append(f"call {number}: what its prompt extends is damaged")
            if prompt is not None and number in last_use:
                kept[number] = prompt + each.completion if each.completion is not None else prompt
            for done in [key for key in kept if last_use[key] <= number]:
                del kept[done]
            yield frame.call_of(each, prompt)

    def frames(self, *, columns: bool = True) -> Iterator[tuple[int, Frame]]:
        """The frames with their numbers, prompts not rebuilt. Raises as iterating does."""
        self.findings.clear()
        with self.path.open("rb") as file:
            frame.read_header(file)
            self.end = file.tell()
            number = 0
            while True:
                start = file.tell()
                try:
                    found = frame.decode(file, columns=columns)
                except frame.Damaged as damage:
                    self.findings.append(f"call {number} at byte {start}: {damage}")
                    if not damage.passed:
                        return
                else:
                    if found is None:
                        return
                    self.end = file.tell()
                    yield number, found
                number += 1

    def _last_uses(self) -> dict[int, int]:
        """By call number, the last call whose prompt extends it."""
        return {each.base: number for number, each in self.frames(columns=False) if each.base is not None}
