"""What is shown: one folder of jobs, the training runs beside it, and what all pages share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from evals.categories import Category
from evals.report.bounds import Bounds
from evals.report.filters import environment
from evals.view import links
from evals.view.figures import Figures
from evals.view.index import LiveIndex
from evals.view.numbers import Numbers
from evals.view.training import Training
from harness.store.layout import JobPaths, folders_in

if TYPE_CHECKING:
    from harness.export.retokenize import Tokenizer

HERE = Path(__file__).parent


class Site:
    """One viewer. Its methods may be called from several threads."""

    def __init__(
        self,
        folder: Path,
        runs: Training,
        categories: Mapping[str, Category],
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Raises UsageError where the index cannot be made."""
        self.folder = folder
        self.runs = runs
        self.categories = categories
        self.tokenizer = tokenizer
        self.bounds = Bounds()
        self.index = LiveIndex(folder, self._make_ready)
        self.figures = Figures()
        self.numbers = Numbers(self.index, folder, categories)
        self._templates = environment(HERE / "templates")
        self._templates.globals.update(path_to=links.path_to, trials_of=links.trials, term=links.term)

    def _make_ready(self) -> None:
        """Have the numbers of the latest job at hand before they are asked for."""
        with suppress(Exception):  # whoever asks for it is told
            jobs = folders_in(self.folder)
            if jobs:
                self.numbers.job(max(jobs, key=lambda name: (self.folder / name).stat().st_mtime))

    def render(self, template: str, **context: Any) -> HTMLResponse:
        """A page."""
        shared = {"folder": self.folder.resolve().name, "index": self.index, "bounds": self.bounds, "jobs": []}
        text = self._templates.get_template(template).render({**shared, **context})
        return HTMLResponse(text.encode("utf-8", "replace"))

    def job(self, name: str) -> JobPaths:
        """A job's files. Raises 404 for a name that is none."""
        return JobPaths(_below(self.folder, name))

    def trial(self, job: str, name: str) -> Path:
        """A trial's folder. Raises 404 for names that are none."""
        return _below(self.job(job).root, name)


def _below(folder: Path, name: str) -> Path:
    """A folder in a folder: no link, nothing hidden, nothing above."""
    found = folder / name
    if not name or name.startswith(".") or "/" in name or "\0" in name or not found.is_dir() or os.path.islink(found):  # noqa: PTH114
        raise HTTPException(404, "There is no such job or trial.")
    return found
