"""One line a step and one an evaluation, for whoever watches; at the end, where the time went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from trainer.config import TrainConfig
from trainer.display import Display
from trainer.monitor.monitor import Monitor
from trainer.online.loop import Ended
from trainer.online.parts import Trained

_SAID = {
    "starved": "training waited for rollouts",
    "training": "training",
    "publishing": "handing weights over",
    "evaluating": "evaluating",
    "idle": "sandboxes waited for training",
}


class LoopDisplay:
    """Prints to stderr."""

    def __init__(self, config: TrainConfig) -> None:
        self._console = Console(stderr=True, highlight=False, emoji=False)
        self._steps = Display()
        self._watch = Monitor(config)

    def step(self, trained: Trained) -> None:
        """One step, and what the monitor says of it."""
        self._steps.step(dict(trained.metrics), self._watch.observe(trained.metrics))

    def evaluation(self, document: Mapping[str, Any]) -> None:
        """One evaluation."""
        success, interval = document["success"], document["interval"]
        rate = "too little to tell" if success is None else f"{success:.1%}"
        within = f" ({interval[0]:.1%} to {interval[1]:.1%})" if interval else ""
        self._console.print(
            f"held out, version {document['version']}: success {rate}{within} of {document['n']} attempts "
            f"in {document['seconds']:.1f} s: {document['job']}",
            style="bold",
            markup=False,
            soft_wrap=True,
        )

    def ended(self, ended: Ended) -> None:
        """Where the time went, and what was not trained."""
        shares = ", ".join(f"{_SAID[part]} {share:.0%}" for part, share in ended.shares.items() if share >= 0.005)
        self._console.print(f"of the time: {shares}", markup=False, soft_wrap=True)
        if ended.state.lost:
            lost = ", ".join(f"{why} {count}" for why, count in sorted(ended.state.lost.items()))
            self._console.print(f"groups given up: {lost}, of {ended.state.started}", markup=False, soft_wrap=True)
