"""How the local viewer shows a run: entry point `training` of the group `harness.run_pages`."""

from __future__ import annotations

from pathlib import Path


def is_run(folder: Path) -> bool:
    """Whether a folder is a run of training."""
    return (folder / "run.json").is_file()


def page(folder: Path, home: str) -> tuple[str, str]:
    """A run's report as it is now, and its policy. Raises UsageError for a run without a step."""
    from trainer.report.page import page_of
    from trainer.report.run import open_run

    return page_of(open_run(folder), home)
