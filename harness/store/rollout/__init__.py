"""Every model call of a run with the tokens that were sampled: one typed sidecar beside the trajectory.

The format is told in `harness.store.rollout.frame`.
"""

from harness.store.rollout.call import SampledCall
from harness.store.rollout.reader import RolloutReader
from harness.store.rollout.writer import RolloutWriter

__all__ = ["RolloutReader", "RolloutWriter", "SampledCall"]
