"""What a training run is asked to do: read from TOML and the command line, checked once, written beside the result."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from harness.errors import UsageError
from trainer.losses.correction import CorrectionConfig
from trainer.losses.diversity import DiversityConfig
from trainer.losses.kl import KlConfig
from trainer.losses.recipes import RECIPES, Advantage, Recipe
from trainer.losses.value import CriticConfig
from trainer.losses.weights import Weighting
from trainer.monitor.settings import MonitorConfig
from trainer.policy.config import PolicyConfig
from trainer.samples.filters import FilterConfig


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BreakerConfig(_Table):
    """When dropping what infrastructure broke has to stop; see `trainer.samples.breaker`."""

    rule: Literal["window", "cumulative"] = "window"
    limit: float = Field(default=0.5, gt=0, le=1)
    window: int = Field(default=64, ge=1)
    minimum: int = Field(default=16, ge=1)
    broken_share: float = Field(default=0.5, gt=0, le=1)
    """A group is bad when at least this share of its attempts was lost to infrastructure."""


class ToggleConfig(_Table):
    """Kimi K2.5's Toggle, see `trainer.shaping`. Nothing of it is published: all are project defaults."""

    period: int = Field(default=10, ge=1)
    """Steps of a phase: the budget holds in the first, the third, ..."""
    threshold: float = Field(default=0.5, allow_inf_nan=False)
    """It holds for groups with at least this mean reward."""
    percentile: float = Field(default=50.0, ge=0, le=100)
    """Of the lengths of a task's correct attempts, when it is first solved; that budget then stays."""


class RewardConfig(_Table):
    """How the export's rewards become the number that is learned from."""

    positive: float = 0.5
    """An attempt with at least this reward counts as positive; decided before any shaping or centring."""
    parts: dict[str, float] = Field(default_factory=dict)
    """Weights by key of the verifier's reward parts; empty takes the headline reward."""
    overlong: tuple[PositiveInt, PositiveInt] | None = None
    """(max_length, cache) of DAPO's soft punishment, in sampled tokens; its -1 to 0 is added to the reward."""
    length_weight: float = Field(default=0.0, ge=0)
    """Weight of Kimi K1.5's length reward."""
    toggle: ToggleConfig | None = None
    """Successes over their task's budget of tokens earn nothing, in every other phase; its defaults: `toggle = {}`."""


Decay = Annotated[float, Field(ge=0, lt=1)]


class OptimizerConfig(_Table):
    """AdamW and its schedule."""

    lr: float = Field(default=1e-6, gt=0, allow_inf_nan=False)
    betas: tuple[Decay, Decay] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    """MiniMax-M1 needs 1e-15, since its gradients are of the order 1e-18 to 1e-5."""
    weight_decay: float = Field(default=0.0, ge=0)
    warmup_steps: int = Field(default=10, ge=0)
    """The learning rate grows linearly over so many steps, and is constant afterwards."""
    max_grad_norm: float | None = Field(default=1.0, gt=0)


class TrainConfig(_Table):
    """The whole request.

    Attributes:
        algo: a name of `trainer.losses.recipes`. `objective` overrides the objective's settings; `advantage`,
            `weighting` override the recipe's choice.
        proximal: "behaviour" takes the recorded log-probabilities as the ratio's denominator; "recompute" takes those
            of the policy at the beginning of the step, and allows a `correction`.
        whiten: advantages to mean 0 and standard deviation 1 over the step's trained tokens; None is the recipe's rule.
        critic: a value head, whose generalised advantages take the place of `advantage`; its defaults: `critic = {}`.
        gamma: the discount per chunk, where the recipe counts by chunk.
        negative_weight: multiplies the advantages of attempts without a positive outcome.
        positive_only_steps: so many first steps train on positive attempts alone; groups are centred on the batch.
        positive_only_until: and all steps do, until so large a share of attempts has a valid reward, over the last
            `breaker.window` groups.
        groups_per_step, steps: the work. `steps` None is one pass over the export; more than a pass begins another.
        updates_per_step: optimiser updates that a step's groups are split over.
        token_budget: tokens of a micro-batch, padding included where rows are padded. A longer row is one by itself.
        max_skipped: so many steps without a finite gradient in a row end the run.
        checkpoint_every: steps between checkpoints; None writes one at the end only. `keep_checkpoints`: the newest.
        policy_version: of the weights that training begins with, as the sampler counted them; None leaves staleness
            unknown, and filters by it idle.
        reference: the model that `kl` is measured against; None is the one that training begins with.
        monitor: what is watched, and what may be done about it.
    """

    algo: str = "cispo"
    objective: dict[str, Any] = Field(default_factory=dict)
    advantage: Advantage | None = None
    weighting: Weighting | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    proximal: Literal["behaviour", "recompute"] = "behaviour"
    correction: CorrectionConfig | None = None
    kl: KlConfig | None = None
    diversity: DiversityConfig | None = None
    whiten: bool | None = None
    critic: CriticConfig | None = None
    gamma: float = Field(default=1.0, gt=0, le=1)
    negative_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    positive_only_steps: int = Field(default=0, ge=0)
    positive_only_until: float | None = Field(default=None, gt=0, le=1)
    rewards: RewardConfig = RewardConfig()
    filters: FilterConfig = FilterConfig()
    breaker: BreakerConfig = BreakerConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    groups_per_step: int = Field(default=8, ge=1)
    steps: int | None = Field(default=None, ge=1)
    updates_per_step: int = Field(default=1, ge=1)
    token_budget: int = Field(default=2048, ge=2)
    max_skipped: int = Field(default=5, ge=1)
    checkpoint_every: int | None = Field(default=20, ge=1)
    keep_checkpoints: int = Field(default=2, ge=1)
    policy: PolicyConfig = PolicyConfig()
    policy_version: int | None = Field(default=None, ge=0)
    reference: str | None = None
    monitor: MonitorConfig = MonitorConfig()
    seed: int = Field(default=0, ge=0, lt=2**63)

    @field_validator("algo")
    @classmethod
    def _known_algo(cls, value: str) -> str:
        if value not in RECIPES:
            raise ValueError(f"there is no algorithm {value!r}; there are {', '.join(RECIPES)}")
        return value

    @model_validator(mode="after")
    def _parts_agree(self) -> TrainConfig:
        self.recipe.config.model_validate({**self.recipe.settings, **self.objective})
        if self.correction is not None and self.proximal == "behaviour":
            raise ValueError(
                "a correction with proximal = 'behaviour' would count the sampler's mismatch twice: "
                "set proximal = 'recompute', or drop the correction"
            )
        if self.reference is not None and self.kl is None:
            raise ValueError("a reference is what kl is measured against: set kl.weight, or drop the reference")
        if self.critic is not None and (self.recipe.by_chunk or self.recipe.advantage == "none"):
            raise ValueError(f"{self.algo} takes no critic: use ppo, or drop critic")
        if self.critic is not None and self.advantage is not None:
            raise ValueError("a critic is the baseline, and takes the place of advantage: drop one of the two")
        if self.gamma < 1 and not self.recipe.by_chunk:
            raise ValueError(f"gamma discounts by chunk, which {self.algo} does not: use ipa, or critic.gamma")
        if (self.weighting or self.recipe.weighting) == "constant" and self.max_tokens is None:
            raise ValueError("weighting 'constant' divides by max_tokens, which has to be set")
        return self

    @property
    def recipe(self) -> Recipe:
        """The algorithm."""
        return RECIPES[self.algo]

    @property
    def objective_config(self) -> BaseModel:
        """The objective's own settings."""
        return self.recipe.config.model_validate({**self.recipe.settings, **self.objective})

    @property
    def whitened(self) -> bool:
        """Whether advantages are whitened."""
        return self.recipe.whiten if self.whiten is None else self.whiten

    @property
    def needs_logprobs(self) -> bool:
        """Whether recorded log-probabilities take part; supervised training and plain REINFORCE need none."""
        return self.algo not in ("sft", "rloo", "reinforce") or self.correction is not None


def parse_config(tables: dict[str, Any]) -> TrainConfig:
    """The checked request. Raises UsageError naming the first wrong setting."""
    try:
        return TrainConfig.model_validate(tables)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        unknown = first["type"] == "extra_forbidden"
        message = "there is no such setting" if unknown else first["msg"].removeprefix("Value error, ")
        raise UsageError(f"training: {where + ': ' if where else ''}{message}") from None
