"""Training runs, by whoever knows how to show them: entry points of the group `harness.run_pages`.

Each is a module with `is_run(folder) -> bool` and `page(folder, home) -> (html, policy)`: a whole page, which links to
`home`, with the content security policy under which it works. What is shown of training is the trainer's own report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from harness.errors import UsageError

GROUP = "harness.run_pages"


class RunPages(Protocol):
    """What an entry point is."""

    def is_run(self, folder: Path) -> bool:
        """Whether a folder is a run of this kind."""

    def page(self, folder: Path, home: str) -> tuple[str, str]:
        """The page, and its policy. Raises UsageError where there is nothing to show yet."""


@dataclass(frozen=True, slots=True)
class Found:
    """One run."""

    name: str
    folder: Path
    pages: RunPages


class Training:
    """The runs that were named, and those in the folder of jobs."""

    def __init__(self, folder: Path, named: Sequence[Path]) -> None:
        """Raises UsageError for a named folder that is no run."""
        self._folder = folder
        self._pages: list[RunPages] = [point.load() for point in entry_points(group=GROUP)]
        self._named = list(named)
        for each in named:
            if self.pages_of(each) is None:
                raise UsageError(f"{each} is no run of training: name the folder that harness train wrote")

    def pages_of(self, folder: Path) -> RunPages | None:
        """Who shows a folder; None where it is no run."""
        return next((each for each in self._pages if each.is_run(folder)), None)

    def runs(self) -> dict[str, Found]:
        """All runs, by a name of their own."""
        try:
            inside = sorted(each for each in self._folder.iterdir() if each.is_dir() and not each.is_symlink())
        except OSError:
            inside = []
        found: dict[str, Found] = {}
        for each in [*self._named, *inside]:
            pages = self.pages_of(each)
            if pages is not None:
                name = each.resolve().name
                while name in found and found[name].folder.resolve() != each.resolve():
                    name += "'"
                found[name] = Found(name, each, pages)
        return found
