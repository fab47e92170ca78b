"""A run's numbers for TensorBoard, beside the log that is always written.

OUT/tensorboard/        one event file for each start of the run; tensorboard --logdir OUT shows them as one curve
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from trainer.measure import Metrics
from trainer.monitor.metrics import metric_of
from trainer.monitor.monitor import Observation

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Board:
    """Writes every number of a step that is known, under the family it belongs to."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError without the package tensorboard."""
        try:
            import tensorboard  # noqa: F401
        except ImportError as error:
            raise UsageError("--tensorboard needs tensorboard: pip install 'harness-rl[tensorboard]'") from error
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def step(self, metrics: Metrics, seen: Observation) -> None:
        """Write one step."""
        step = int(metrics["step"] or 0)
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            # Not before: a run that turns out to be impossible leaves nothing behind. A resumed run does some steps
            # again; what was written of them is hidden.
            self._writer = SummaryWriter(self._folder, purge_step=step, flush_secs=10)
        for name, value in metrics.items():
            metric = metric_of(name)
            if value is not None and name != "step":
                self._writer.add_scalar(f"{metric.family}/{name}" if metric else name, value, step)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
