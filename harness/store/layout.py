"""Where everything lies below a job's folder. Names of the record are Harbor's, so that its readers find them."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness import packed

_SAFE = re.compile(r"[a-z0-9][a-z0-9_-]*")
_MAX_SLUG = 40


@lru_cache(maxsize=4096)
def slug(name: str) -> str:
    """A folder- and container-safe form of any name; different names never share one.

    "org/name" becomes "org--name". A name that is not safe even so is shortened and given a digest of the original.
    """
    spelled = name.replace("/", "--", 1)
    if _SAFE.fullmatch(spelled) and len(spelled) <= _MAX_SLUG and "--" not in name and "__" not in name:
        return spelled
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[: _MAX_SLUG - 9].strip("-")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else f"t-{digest}"


def trial_name(task_name: str, attempt: int, retry: int) -> str:
    """The folder of one execution: attempt counts from 1, retry from 0 (the first execution)."""
    suffix = f"r{retry}" if retry else ""
    return f"{slug(task_name)}__{attempt}{suffix}"


@dataclass(frozen=True, slots=True)
class TrialPaths:
    """The files of one execution of one attempt."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def result(self) -> Path:
        return self.root / "result.json"

    @property
    def log(self) -> Path:
        return self.root / "trial.log"

    @property
    def exception(self) -> Path:
        return self.root / "exception.txt"

    def agent(self, step: str | None = None) -> Path:
        """The agent's folder; of a step, in a task that has several."""
        return self._of(step) / "agent"

    def verifier(self, step: str | None = None) -> Path:
        """The verifier's folder."""
        return self._of(step) / "verifier"

    def artifacts(self, step: str | None = None) -> Path:
        """The folder of what was kept from the sandbox."""
        return self._of(step) / "artifacts"

    def trajectory(self, step: str | None = None) -> Path:
        """The ATIF document."""
        return self.agent(step) / "trajectory.json"

    def has_trajectory(self, step: str | None = None) -> bool:
        """Whether there is one, compressed or not."""
        return packed.find(self.trajectory(step)) is not None

    def trajectories(self) -> list[Path]:
        """The documents that there are, compressed or not: of the whole, then of its steps by name."""
        folders = [self.root, *sorted(self.root.glob("steps/*"))]
        return [path for folder in folders if packed.find(path := folder / "agent" / "trajectory.json") is not None]

    def rollout(self, step: str | None = None) -> Path:
        """The sampled tokens of every model call."""
        return self.agent(step) / "rollout.bin"

    def _of(self, step: str | None) -> Path:
        return self.root / "steps" / step if step else self.root


@dataclass(frozen=True, slots=True)
class JobPaths:
    """The files of one job."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock.json"

    @property
    def result(self) -> Path:
        return self.root / "result.json"

    @property
    def log(self) -> Path:
        return self.root / "job.log"

    @property
    def running(self) -> Path:
        """Held locked by the process that runs the job."""
        return self.root / ".running"

    def trial(self, name: str) -> TrialPaths:
        return TrialPaths(self.root / name)

    def trial_folders(self) -> list[Path]:
        """Every folder that holds, or was meant to hold, an execution; sorted by name."""
        return [self.root / name for name in folders_in(self.root)] if self.root.is_dir() else []


def folders_in(root: Path) -> list[str]:
    """The folders below a job, or below a folder of jobs, by name; neither links nor hidden ones. Raises OSError."""
    with os.scandir(root) as entries:
        return sorted(
            entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
        )
