"""The job's own record while it runs and after: `result.json`, accepted by Harbor's reader, and the scan that resumes.

Derived from the trials' records, which are the source of truth; it can be made again from them at any time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from harness.errors import UsageError
from harness.failures import Outcome
from harness.job.config import load_job
from harness.job.early import Decision
from harness.job.summary import Finished, JobSummary
from harness.records import TrialResult, now
from harness.store.files import read_json, to_json, write_atomic
from harness.store.layout import JobPaths
from harness.store.reader import read_results


def job_result(
    summary: JobSummary,
    *,
    job_id: str,
    started_at: datetime,
    finished_at: datetime | None,
    evals_key: str,
    running: int = 0,
    decision: Decision | None = None,
) -> dict[str, Any]:
    """The document `result.json` of a job."""
    final = list(summary.last.values())
    reward_stats: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    exceptions: dict[str, list[str]] = defaultdict(list)
    for finished in final:
        for key, value in (finished.rewards or {}).items():
            reward_stats[key][repr(value)].append(finished.name)
        if finished.exception:
            exceptions[finished.exception].append(finished.name)
    counts, rate = summary.counts, summary.rate()
    n_scored = counts[Outcome.SCORED.value]
    return {
        "schema_version": 1,
        "id": job_id,
        "started_at": started_at.isoformat(),
        "updated_at": now().isoformat(),
        "finished_at": finished_at.isoformat() if finished_at else None,
        "n_total_trials": summary.n_total,
        "stats": {
            "n_completed_trials": len(final),
            "n_errored_trials": sum(len(names) for names in exceptions.values()),
            "n_running_trials": running,
            "n_pending_trials": max(0, summary.n_total - len(final) - running),
            "n_cancelled_trials": counts[Outcome.CANCELLED.value],
            "n_retries": summary.n_retries,
            "evals": {
                evals_key: {
                    "n_trials": n_scored,
                    "n_errors": sum(len(names) for names in exceptions.values()),
                    "metrics": [] if rate.mean_reward is None else [{"mean": rate.mean_reward}],
                    "pass_at_k": {},
                    "reward_stats": reward_stats,
                    "exception_stats": exceptions,
                }
            },
            "n_input_tokens": summary.spent["in"],
            "n_cache_tokens": summary.spent["cached"],
            "n_output_tokens": summary.spent["out"],
            "cost_usd": summary.spent["cost"],
        },
        "summary": summary_document(summary),
        "stopped_early": decision.model_dump() if decision else None,
    }


def recorded_decision(paths: JobPaths) -> Decision | None:
    """Why a job ended before all of it ran, where its `result.json` says so."""
    try:
        return Decision.model_validate(read_json(paths.result)["stopped_early"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def summary_document(summary: JobSummary) -> dict[str, Any]:
    """The numbers of the end table, for machines."""
    return {
        "counts": summary.counts,
        "n_retries": summary.n_retries,
        "pass_mark": summary.pass_mark,
        "overall": _rate(summary),
        "categories": {category: _rate(summary, category) for category in summary.categories()},
        "failures": [{"category": category, "tag": tag, "count": count} for category, tag, count in summary.failures()],
        "infra_rate": summary.infra_rate,
        "tokens": {"input": summary.spent["in"], "cached": summary.spent["cached"], "output": summary.spent["out"]},
        "cost_usd": summary.spent["cost"],
    }


def _rate(summary: JobSummary, category: str | None = None) -> dict[str, Any]:
    rate = summary.rate(category)
    return {
        "successes": rate.successes,
        "n": rate.n,
        "total": rate.total,
        "rate": rate.value,
        "wilson_95": list(rate.interval) if rate.interval else None,
        "worst_case": rate.worst_case,
        "coverage": rate.coverage,
        "mean_reward": rate.mean_reward,
    }


def write_job_result(paths: JobPaths, document: dict[str, Any], *, durable: bool) -> None:
    """Replace the job's `result.json`."""
    write_atomic(paths.result, to_json(document), durable=durable)


See = Callable[[str, TrialResult], None]
"""Is shown every execution's folder name and record while a job is read, so that nobody reads it twice."""


def summarise(
    paths: JobPaths, n_total: int | None = None, pass_mark: float = 1.0, see: See | None = None
) -> tuple[JobSummary, list[str]]:
    """The summary of a job folder, ours or Harbor's, and one line for each record that could not be read."""
    summary = JobSummary(n_total=0, pass_mark=pass_mark)
    findings = []
    for name, result, problem in read_results(paths):
        if result is not None:
            summary.add(Finished.of(result))
            if see is not None:
                see(name, result)
        elif problem is not None and not problem.startswith("no result"):
            findings.append(f"{name}/{problem}")
    summary.n_total = max(n_total or 0, len(summary.last))
    return summary, findings


def load_summary(paths: JobPaths, see: See | None = None, *, empty: bool = False) -> tuple[JobSummary, list[str]]:
    """The summary of a job as it was run: its own pass mark and number of attempts, where its record tells them.

    Raises UsageError for a folder without trials, unless `empty` ones are welcome.
    """
    n_total, pass_mark = _as_run(paths)
    summary, findings = summarise(paths, n_total, pass_mark, see)
    summary.decided = _decided(paths)
    if not (summary.last or findings or empty):
        raise UsageError(f"{paths.root} holds no trials")
    return summary, findings


def summary_of(paths: JobPaths, executions: Iterable[Finished]) -> JobSummary:
    """As `load_summary`, of executions that the caller knows already, from an index."""
    n_total, pass_mark = _as_run(paths)
    summary = JobSummary(n_total=0, pass_mark=pass_mark, decided=_decided(paths))
    for each in executions:
        summary.add(each)
    summary.n_total = max(n_total or 0, len(summary.last))
    return summary


def _decided(paths: JobPaths) -> str | None:
    decision = recorded_decision(paths)
    return str(decision) if decision else None


def _as_run(paths: JobPaths) -> tuple[int | None, float]:
    """The number of attempts and the pass mark that a job was run with, where its record tells them."""
    try:
        document = read_json(paths.result)
        n_total = document.get("n_total_trials")
        return n_total if isinstance(n_total, int) else None, float(document.get("summary", {}).get("pass_mark", 1.0))
    except (OSError, ValueError, AttributeError, TypeError):
        return _asked(paths)


def _asked(paths: JobPaths) -> tuple[int | None, float]:
    """The number of attempts and the pass mark that a job was begun with, where its own record is missing or torn."""
    try:
        config, lock = load_job(paths)
    except UsageError:
        return None, 1.0
    return sum(config.n_attempts if task.digest else 1 for task in lock.tasks), config.pass_mark
