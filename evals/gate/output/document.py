"""`gate.json`: all that the gate knows, for machines. Unknown is null; `version` grows when a field changes meaning."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from evals.compare import CategoryDifference, Comparison, Flip
from evals.difference import Difference
from evals.gate.judge import GateResult
from evals.run import Run

FORMAT, VERSION = "harness-gate", 1


def to_json(result: GateResult) -> str:
    """One JSON document, with a final newline."""
    return json.dumps(document(result), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def document(result: GateResult) -> dict[str, Any]:
    """The result as plain values."""
    reading = result.reading
    found = comparison_document(result.comparison)
    return {
        "format": FORMAT,
        "version": VERSION,
        "verdict": result.verdict.value,
        "exit_code": result.exit_code,
        "reasons": list(result.reasons),
        "notes": list(result.notes),
        "policy": {
            **asdict(result.policy),
            "on_inconclusive": result.policy.on_inconclusive.value,
            "metric": result.policy.metric.value,
        },
        "p_worse": reading.p if reading else None,
        "lower_bound": reading.lower if reading else None,
        "if_missing": {
            "all_failed": result.worst.value if result.worst else None,
            "all_passed": result.best.value if result.best else None,
        },
        "outlook": asdict(result.outlook) if result.outlook else None,
        **found,
        "tasks": {**found["tasks"], "quarantined": dict(result.quarantined)},
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """A comparison as plain values."""
    pairing = comparison.pairing
    return {
        "base": _run(comparison.base),
        "new": _run(comparison.new),
        "overall": _difference(comparison.overall),
        "reward": asdict(comparison.reward) if comparison.reward else None,
        "reward_sign_flip": asdict(comparison.reward_flips) if comparison.reward_flips else None,
        "categories": [_category(each) for each in comparison.categories],
        "changed_tasks": [_flip(each) for each in comparison.flips],
        "cost_usd_per_attempt": _sides(comparison.cost),
        "seconds_per_attempt": _sides(comparison.seconds),
        "missing_imbalance_p": comparison.imbalance,
        "tasks": {
            "paired": len(pairing.graded),
            "ungraded": pairing.ungraded,
            "removed": list(pairing.removed),
            "added": list(pairing.added),
            "edited": list(pairing.changed),
        },
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "label": run.label,
        "agent": run.agent,
        "model": run.model,
        "pass_mark": run.pass_mark,
        "dataset_digest": run.dataset_digest,
        "tasks": len(run.tasks),
        "attempts_per_task": run.attempts,
        "attempts": run.total,
        "missing": run.missing,
        "outcomes": dict(run.outcomes),
        "cost_usd": run.cost,
    }


def _difference(found: Difference | None) -> dict[str, Any] | None:
    return None if found is None else {**asdict(found), "difference": found.value}


def _category(each: CategoryDifference) -> dict[str, Any]:
    return {"key": each.key, "q": each.q, "few": each.few, **(_difference(each.difference) or {})}


def _flip(each: Flip) -> dict[str, Any]:
    return {
        "task": each.new.name,
        "difference": each.value,
        "base": {"passed": each.base.passed, "n": each.base.counted},
        "new": {"passed": each.new.passed, "n": each.new.counted},
        "failed_trials": list(each.new.trials),
    }


def _sides(pair: tuple[float, float] | None) -> dict[str, float] | None:
    return None if pair is None else {"base": pair[0], "new": pair[1]}
