"""The distance to a reference policy, as a loss per token (J. Schulman, "Approximating KL Divergence").

k1 = log pi - log ref        unbiased in value; as a loss its gradient does not depend on the reference at all
k2 = (log pi - log ref)^2/2  biased in value, right in gradient
k3 = ref/pi - 1 - log(ref/pi)  low variance; its gradient is that of the reversed divergence
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor


class KlConfig(BaseModel):
    """Which estimator, and its weight."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    estimator: Literal["k1", "k2", "k3"] = "k2"
    weight: float = Field(default=1e-3, gt=0, allow_inf_nan=False)


def kl_estimate(logp: Tensor, reference: Tensor, estimator: Literal["k1", "k2", "k3"]) -> Tensor:
    """The estimate per token [N]."""
    difference = logp - reference
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference.square() / 2
    return (-difference).exp() - 1 + difference
