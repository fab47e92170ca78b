"""One line a step, for whoever watches."""

from __future__ import annotations

from rich.console import Console

from trainer.measure import Metrics
from trainer.monitor.live import standing, told, worth_telling
from trainer.monitor.monitor import Observation

_COLUMNS = (
    ("step", "step", "{:>6}"),
    ("reward", "reward_mean", "{:>7.3f}"),
    ("loss", "loss", "{:>9.4f}"),
    ("grad", "grad_norm", "{:>8.3g}"),
    ("ratio max", "ratio_max", "{:>9.3g}"),
    ("k3", "behaviour_k3", "{:>8.1e}"),
    ("entropy", "entropy", "{:>7.3f}"),
    ("groups", "groups", "{:>6}"),
    ("tokens", "trained_tokens", "{:>8}"),
    ("tok/s", "tokens_per_second", "{:>7.0f}"),
)


class Display:
    """Prints to stderr: a heading now and then, and a line for every step."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, emoji=False)
        self._lines = 0

    def step(self, metrics: Metrics, seen: Observation) -> None:
        """Print one step, and what the monitor says of it."""
        if self._lines % 40 == 0:
            if self._lines:
                self._console.print(standing(seen), soft_wrap=True)
            self._console.print(
                " ".join(head.rjust(_width(head, form)) for head, _, form in _COLUMNS),
                style="bold",
                soft_wrap=True,
            )
        self._lines += 1
        cells = []
        for head, name, form in _COLUMNS:
            value = metrics.get(name)
            cells.append(("-" if value is None else form.format(value)).rjust(_width(head, form)))
        note = "  skipped: no finite gradient" if metrics.get("skipped") else ""
        self._console.print(" ".join(cells) + note, markup=False, soft_wrap=True)
        for event in filter(worth_telling, seen.events):
            self._console.print("      ", told(event), soft_wrap=True)


def _width(head: str, form: str) -> int:
    return max(len(head), len(form.format(0)))
