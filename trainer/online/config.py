"""What a loop is asked to do: read from TOML, checked once, written beside the result."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import UsageError
from trainer.config import TrainConfig, parse_config
from trainer.schedule.ada import AdaRule
from trainer.schedule.budget import Estimator
from trainer.schedule.window import RATIO, window_of


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TasksConfig(_Table):
    """What is trained on, and what success is measured on: datasets as `harness run` takes them."""

    train: str
    held_out: str | None = None
    """None: nothing is evaluated."""


class AgentConfig(_Table):
    """The scaffold, as `harness run` takes it; the loop adds where the policy is served."""

    name: str = "tool_calling"
    options: dict[str, Any] = Field(default_factory=dict)
    """Override single settings of the agent."""
    config_file: str | None = None
    """The harness.toml with the agent's table."""


class SandboxConfig(_Table):
    """Where attempts run; times in seconds."""

    backend: str = "local"
    concurrent: int = Field(default=8, ge=1)
    """Trials at a time."""
    max_sandboxes: int | None = Field(default=None, ge=1)
    max_retries: int = Field(default=2, ge=0)
    """Repetitions of an attempt that infrastructure failed."""
    agent_timeout: float | None = Field(default=None, gt=0)
    allow_unsafe_local: bool = False


class CollectConfig(_Table):
    """How much is collected for a step, and how far ahead of it."""

    groups: int = Field(default=8, ge=1)
    """Groups that a step is made from."""
    attempts: int = Field(default=8, ge=1)
    """Attempts of a group, where the budget is uniform; on average, where it is not."""
    redundant: int = Field(default=0, ge=0)
    """Attempts beyond those, started with them; the group is done with the first ones and the rest are cancelled."""
    async_ratio: int = Field(default=0, ge=0)
    """Steps that a group may be older than the weights which it trains; 0 collects and trains in turn."""
    window: float = Field(default=RATIO, gt=0, le=1)
    """Windowed FIFO: the share of the groups in flight that may overtake the oldest one, itself included."""
    off_policy: Literal["weigh", "mask"] = "weigh"
    """Tokens of an attempt that went on under newer weights: the objective's ratio weighs them, or those that the
    newest of its versions did not sample stay out of the loss."""
    deadline_sec: float | None = Field(default=None, gt=0)
    """After so long a group is done with the attempts that it has, or given up where these are fewer than two."""

    @property
    def in_flight(self) -> int:
        """Groups at a time that are not trained yet, those in training included."""
        return (self.async_ratio + 1) * self.groups

    @property
    def window_groups(self) -> int:
        """The window in groups."""
        return window_of(self.in_flight, self.window)


class BudgetConfig(_Table):
    """How the attempts of a step are shared out over its groups (`trainer.schedule`)."""

    rule: Literal["uniform", "vip", "ada"] = "uniform"
    low: int = Field(default=3, ge=2)
    """VIP: attempts that every group gets."""
    high: int | None = Field(default=None, ge=2)
    """VIP: attempts that none exceeds; None is four times the average."""
    estimator: Estimator = "rloo"
    per_round: int = Field(default=8, ge=1)
    """Reinforce-Ada: attempts of a round."""
    rounds: int = Field(default=4, ge=1)
    exit: Literal["positive", "balance"] = "balance"
    rest: int = Field(default=4, ge=0)
    """Steps that a task rests which nearly always or nearly never succeeds; 0 lets none rest."""
    saturated: float = Field(default=0.95, gt=0.5, le=1)
    hopeless: float = Field(default=0.05, ge=0, lt=0.5)


class UpstreamConfig(_Table):
    """A server of the policy that is already there, and shares a disk with the loop."""

    url: str
    engine: Literal["vllm", "sglang", "harness"]
    model: str
    """What the policy is called there."""
    key_env: str | None = None
    """The variable with the key for new weights."""
    on_update: Literal["finish", "continue"] = "finish"


class ServeConfig(_Table):
    """How the policy is served; see `harness serve --help`."""

    upstream: UpstreamConfig | None = None
    """None: the loop starts a server of its own, which the other settings are for."""
    on_update: Literal["finish", "continue"] = "finish"
    """When new weights come, answers under way finish on the old ones, or continue on the new ones."""
    max_running: int = Field(default=64, ge=1)
    """Answers that share a forward pass."""
    threads: int | None = Field(default=None, ge=1)
    """None: one for small models."""
    max_len: int | None = Field(default=None, ge=2)

    def options(self) -> list[str]:
        """As the server's command line takes them."""
        given = {
            "--on-update": self.on_update,
            "--max-running": self.max_running,
            "--threads": self.threads,
            "--max-len": self.max_len,
        }
        return [part for name, value in given.items() if value is not None for part in (name, str(value))]


class EvaluateConfig(_Table):
    """Success on the held-out tasks, by real trials under one version of the policy."""

    every: int = Field(default=10, ge=1)
    """Steps between evaluations; there is one before the first step and one after the last."""
    attempts: int = Field(default=1, ge=1)
    n_tasks: int | None = Field(default=None, ge=1)


class LoopConfig(_Table):
    """The whole request.

    Attributes:
        model: as `harness train --model` takes it.
        steps: training steps, each of which makes the next version of the policy.
        train: settings of `trainer.config`, except what follows from the rest: `groups_per_step`, `steps`, `seed`,
            `policy_version`.
    """

    model: str
    steps: int = Field(ge=1)
    seed: int = Field(default=0, ge=0, lt=2**63)
    tasks: TasksConfig
    agent: AgentConfig = AgentConfig()
    sandboxes: SandboxConfig = SandboxConfig()
    collect: CollectConfig = CollectConfig()
    budget: BudgetConfig = BudgetConfig()
    serve: ServeConfig = ServeConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    train: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _parts_agree(self) -> LoopConfig:
        given = {"groups_per_step", "steps", "seed", "policy_version"} & self.train.keys()
        if given:
            raise ValueError(f"train.{min(given)} follows from the loop's own settings")
        budget, collect = self.budget, self.collect
        if budget.rule == "vip":
            least = budget.low if budget.estimator == "rloo" else max(3, budget.low)
            if not least <= collect.attempts <= self.vip_high:
                raise ValueError(f"budget.low to budget.high, {least} to {self.vip_high}, has to hold collect.attempts")
        if budget.rule == "ada" and budget.per_round * budget.rounds < collect.attempts:
            raise ValueError("budget.per_round times budget.rounds has to reach collect.attempts, which are kept")
        return self

    @property
    def vip_high(self) -> int:
        """VIP: attempts that no group exceeds."""
        return self.budget.high or 4 * self.collect.attempts

    @property
    def ada(self) -> AdaRule | None:
        """Reinforce-Ada's rule, where it shares out the attempts."""
        if self.budget.rule != "ada":
            return None
        return AdaRule(
            keep=self.collect.attempts,
            per_round=self.budget.per_round,
            rounds=self.budget.rounds,
            exit=self.budget.exit,
            positive=self.training.rewards.positive,
        )

    @property
    def training(self) -> TrainConfig:
        """The trainer's request. Raises UsageError naming the first wrong setting."""
        tables = {**self.train, "groups_per_step": self.collect.groups, "seed": self.seed}
        filters = {"max_staleness": self.collect.async_ratio, **tables.get("filters", {})}
        return parse_config({**tables, "filters": filters, "steps": self.steps, "policy_version": 0})


def read_loop(file: Path, changes: dict[str, Any] | None = None) -> LoopConfig:
    """The request in a TOML file, in which relative paths start from its folder. Raises UsageError in one line.

    `changes`: tables that replace single settings of the file's.
    """
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    _merge(tables, changes or {})
    _start_from(file.resolve().parent, tables)
    return parse_loop(tables, str(file))


def parse_loop(tables: dict[str, Any], where: str) -> LoopConfig:
    """The checked request. Raises UsageError naming the first wrong setting."""
    try:
        config = LoopConfig.model_validate(tables)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        told = {"extra_forbidden": "there is no such setting", "missing": "must be set"}.get(
            first["type"], first["msg"].removeprefix("Value error, ")
        )
        raise UsageError(f"{where}: {key + ': ' if key else ''}{told}") from None
    _ = config.training
    return config


def _merge(tables: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(tables.get(key), dict):
            _merge(tables[key], value)
        else:
            tables[key] = value


def _start_from(folder: Path, tables: dict[str, Any]) -> None:
    """Names that lead to something beside the file become full paths; anything else stays a name."""
    for table, keys in (("tasks", ("train", "held_out")), ("agent", ("config_file",)), (None, ("model",))):
        place = tables if table is None else tables.get(table)
        for key in keys:
            value = place.get(key) if isinstance(place, dict) else None
            if isinstance(value, str) and (folder / value).exists():
                assert isinstance(place, dict)
                place[key] = str((folder / value).resolve())
