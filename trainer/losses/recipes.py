"""Algorithms by name: an objective, its bounds, how rewards become advantages, and how tokens are weighed.

A name is a starting point. Every part can be set on its own, and what a source leaves undisclosed is a default of this
project, said so where the setting is defined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from trainer.losses.cispo import CispoConfig, cispo
from trainer.losses.clip import ClipConfig, clipped_surrogate
from trainer.losses.glm import GlmConfig, double_sided_mask
from trainer.losses.gspo import GspoConfig, gspo
from trainer.losses.ipa import IpaConfig, ipa_chunk
from trainer.losses.k2 import K2Config, k2_token_clip
from trainer.losses.reinforce import ReinforceConfig, reinforce
from trainer.losses.sft import SftConfig, sft
from trainer.losses.tokens import Objective
from trainer.losses.topr import ToprConfig, topr
from trainer.losses.weights import Weighting

Advantage = Literal["group_mean", "group_std", "group_std_population", "leave_one_out", "batch_mean", "none"]
"""How rewards become advantages; "none" takes the reward itself. "group_std" divides squares by n - 1, like torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One algorithm.

    Attributes:
        settings: the objective's settings that differ from its own defaults.
        whiten: advantages are brought to mean 0 and standard deviation 1 over the step's trained tokens.
        by_chunk: advantages are discounted by chunk (IPA).
    """

    objective: Objective
    config: type[BaseModel]
    settings: dict[str, Any] = field(default_factory=dict)
    advantage: Advantage = "group_mean"
    weighting: Weighting = "token"
    whiten: bool = False
    by_chunk: bool = False


RECIPES: dict[str, Recipe] = {
    "ppo": Recipe(objective=clipped_surrogate, config=ClipConfig, advantage="batch_mean", whiten=True),
    "grpo": Recipe(objective=clipped_surrogate, config=ClipConfig, advantage="group_std", weighting="rollout"),
    "dr_grpo": Recipe(objective=clipped_surrogate, config=ClipConfig, advantage="group_mean", weighting="constant"),
    "dapo": Recipe(
        objective=clipped_surrogate,
        config=ClipConfig,
        settings={"ratio_max": 1.28},
        advantage="group_std",
    ),
    "cispo": Recipe(objective=cispo, config=CispoConfig),
    "gspo": Recipe(objective=gspo, config=GspoConfig, advantage="group_std", weighting="rollout"),
    "k2": Recipe(objective=k2_token_clip, config=K2Config),
    "glm": Recipe(objective=double_sided_mask, config=GlmConfig),
    "rloo": Recipe(objective=reinforce, config=ReinforceConfig, advantage="leave_one_out", weighting="rollout"),
    "reinforce": Recipe(objective=reinforce, config=ReinforceConfig, advantage="batch_mean", whiten=True),
    "topr": Recipe(objective=topr, config=ToprConfig),
    "ipa": Recipe(objective=ipa_chunk, config=IpaConfig, by_chunk=True),
    "sft": Recipe(objective=sft, config=SftConfig, advantage="none"),
}
"""`harness train --algo NAME`."""
