"""Which tasks two runs share, by content: a task that was edited is another task."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from evals.run import Run, TaskRun


@dataclass(frozen=True, slots=True)
class Pairing:
    """The tasks of two runs.

    Attributes:
        pairs: the same task in the base and in the new run, whatever came of its attempts.
        removed, added, changed: names of tasks only in the base, only in the new run, and in both but edited.
    """

    pairs: tuple[tuple[TaskRun, TaskRun], ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether both runs are of the same tasks."""
        return not (self.removed or self.added or self.changed)

    @property
    def left_out(self) -> str:
        """What is left out, in words; "" for nothing."""
        parts = (("only in the baseline", self.removed), ("only in the job", self.added), ("edited", self.changed))
        return "; ".join(f"{len(names)} {what}: {_some(names)}" for what, names in parts if names)

    @property
    def graded(self) -> list[tuple[TaskRun, TaskRun]]:
        """The pairs in which both runs have attempts that count."""
        return [(base, new) for base, new in self.pairs if base.counted and new.counted]

    @property
    def ungraded(self) -> list[str]:
        """The tasks in which some run has no attempt that counts."""
        return [base.name for base, new in self.pairs if not (base.counted and new.counted)]

    @property
    def without_verdict(self) -> str:
        """The names of the ungraded tasks, in words; "" for none."""
        return _some(tuple(self.ungraded))


def _some(names: tuple[str, ...], shown: int = 5) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def pair(base: Run, new: Run) -> Pairing:
    """Pair tasks of one name and content, then those that were only renamed."""
    shared = [(task, new.tasks[name]) for name, task in base.tasks.items() if name in new.tasks]
    pairs = [(old, now) for old, now in shared if _same(old, now)]
    left = {task.name: task for task in base.tasks.values()}
    right = {task.name: task for task in new.tasks.values()}
    for task, _ in pairs:
        del left[task.name], right[task.name]
    by_digest: dict[str, list[TaskRun]] = defaultdict(list)
    for task in right.values():
        if task.digest:
            by_digest[task.digest].append(task)
    for task in list(left.values()):
        if len(same := by_digest.get(task.digest, [])) == 1:
            pairs.append((task, same[0]))
            del left[task.name], right[same.pop().name]
    changed = left.keys() & right.keys()
    return Pairing(
        pairs=tuple(sorted(pairs, key=lambda pair: pair[0].name)),
        removed=tuple(sorted(left.keys() - changed)),
        added=tuple(sorted(right.keys() - changed)),
        changed=tuple(sorted(changed)),
    )


def _same(base: TaskRun, new: TaskRun) -> bool:
    """A task whose attempts never began has no digest of its own, and is taken for what its name says."""
    return base.digest == new.digest or not (base.digest and new.digest)
