"""What the monitor is asked to do: thresholds, windows, and whether it may change anything."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Invariant = Literal["exploration", "signal", "drift"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Threshold(_Table):
    """Where a number becomes a warning, and where an alarm. None is never."""

    warn: float | None = Field(default=None, allow_inf_nan=False)
    alarm: float | None = Field(default=None, allow_inf_nan=False)


class DiagnosisConfig(_Table):
    """When something is taken for the beginning of a crash. All are project defaults unless said otherwise."""

    window: int = Field(default=20, ge=5)
    """Steps that the present is compared with, and over which a trend is looked for."""
    long_factor: float = Field(default=2.0, gt=1)
    """The longest failure is extreme from so many times its median over the window."""
    same_count: float = Field(default=0.1, ge=0)
    """The number of failures is flat while it changes by at most this share."""
    heavy_share: float = Field(default=0.25, gt=0, le=1)
    """Of the gradient's weight, what the heaviest 1 % of attempts may have."""
    failed_limit: int = Field(default=20_000, ge=1)
    """Tokens of a failed attempt beyond which the published remedy masks it."""
    negative_share: float = Field(default=0.7, gt=0, le=1)
    """Of the gradient's weight, what negative attempts may have."""
    rise: float = Field(default=0.05, ge=0)
    """A share grows from so much more at the window's end than at its beginning."""
    trend_p: float = Field(default=0.005, gt=0, lt=1)
    """And from this p-value of the one-sided Mann-Kendall test."""
    bad_calls: float = Field(default=0.1, ge=0, le=1)
    """A bad pattern is looked at from this share of all tool calls."""


class MonitorConfig(_Table):
    """The whole request.

    Attributes:
        thresholds: by the name of a number, instead of its defaults (`trainer.monitor.invariants`).
        window: steps whose mean is judged.
        start: first steps, whose mean is what relative thresholds are relative to.
        auto_remedy: apply the mildest remedy of what is diagnosed, and log it.
        patience: steps after a remedy in which none is applied: it has to have an effect first.
        halt_on: invariants whose alarm ends the run.
    """

    thresholds: dict[str, Threshold] = Field(default_factory=dict)
    window: int = Field(default=5, ge=1)
    start: int = Field(default=20, ge=1)
    auto_remedy: bool = False
    patience: int = Field(default=10, ge=1)
    halt_on: tuple[Invariant, ...] = ()
    diagnosis: DiagnosisConfig = DiagnosisConfig()

    @field_validator("thresholds")
    @classmethod
    def _known(cls, value: dict[str, Threshold]) -> dict[str, Threshold]:
        from trainer.monitor.invariants import RULES

        known = sorted({rule.metric for rule in RULES})
        for name in value:
            if name not in known:
                raise ValueError(f"no invariant looks at {name!r}; they look at {', '.join(known)}")
        return value
