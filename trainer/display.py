"""One line a step, for whoever watches."""

from __future__ import annotations

from rich.console import Console

from trainer.measure import Metrics


class Display:
    """Prints to stderr: a heading now and then, and a line for every step."""

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

    def __init__(self, steps: int | None) -> None:
        """`steps`: how many there will be; None if nobody knows."""
        self._console = Console(stderr=True, highlight=False, emoji=False)
        self._steps = steps
        self._lines = 0

    def step(self, metrics: Metrics) -> None:
        """Print one step."""
        cells = []
        for _, name, form in self._COLUMNS:
            value = metrics.get(name)
            width = int(form.strip("{:>}").split(".")[0])
            cells.append("-".rjust(width) if value is None else form.format(value))
        if self._lines % 40 == 0:
            heads = (
                head.rjust(max(len(head), len(cell))) for (head, _, _), cell in zip(self._COLUMNS, cells, strict=True)
            )
            self._console.print(" ".join(heads), style="bold", soft_wrap=True)
        self._lines += 1
        line = " ".join(
            cell.rjust(max(len(head), len(cell))) for (head, _, _), cell in zip(self._COLUMNS, cells, strict=True)
        )
        note = "  skipped: no finite gradient" if metrics.get("skipped") else ""
        self._console.print(line + note, markup=False, soft_wrap=True)
