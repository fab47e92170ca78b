"""The gate's judgement of two runs: may they be compared, what does the rule say, and do missing attempts matter?

In order: INVALID where the runs cannot be compared; FAIL or PASS by the rule; and INCONCLUSIVE where the rule cannot
tell, or where it would say something else if all that is missing had failed than if it had passed. So trouble of the
infrastructure never fails a gate, and never passes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from evals.categories import Category
from evals.compare import Comparison, Pairs, compare, pairs_of
from evals.difference import points
from evals.gate.demands import floors_missed, must_pass_broken, pinned_worse, too_dear, totals_of
from evals.gate.outlook import Outlook, outlook
from evals.gate.policy import OnInconclusive, Policy
from evals.gate.quarantine import Entry, Quarantined, apply
from evals.gate.rule import Reading, Verdict, read
from evals.pairing import Pairing, pair
from evals.run import Run, TaskRun

PASSED, FAILED, INVALID, UNDECIDED = 0, 1, 3, 4
"""Exit codes; 2 is a request that cannot be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """What the gate says and why.

    Attributes:
        reasons: one line each, the deciding ones.
        notes: what else to know.
        reading: the rule on attempts that count; worst, best: if all that is missing in the job had failed, or passed,
            and the opposite in the baseline.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    comparison: Comparison
    policy: Policy
    reading: Reading | None
    worst: Verdict | None
    best: Verdict | None
    outlook: Outlook | None
    quarantined: Mapping[str, str]

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 3 invalid, 4 inconclusive where that is to fail."""
        if self.verdict is Verdict.INCONCLUSIVE:
            return UNDECIDED if self.policy.on_inconclusive is OnInconclusive.FAIL else PASSED
        return {Verdict.PASS: PASSED, Verdict.FAIL: FAILED}.get(self.verdict, INVALID)


def judge(
    base: Run,
    new: Run,
    policy: Policy,
    categories: Mapping[str, Category],
    *,
    quarantine: Sequence[Entry] = (),
    today: date,
) -> GateResult:
    """Judge `new` against `base`. Nothing is read or written."""
    taken_out = apply(quarantine, {*base.tasks, *new.tasks}, today)
    base, new = _without(base, taken_out), _without(new, taken_out)
    pairing = pair(base, new)
    comparison = compare(base, new, pairing, categories)
    invalid = _invalid(base, new, pairing, policy, comparison)
    notes = [*taken_out.notes, *_notes(comparison, policy), *base.findings, *new.findings]
    graded = pairing.graded
    reading = read(totals_of(graded, policy), policy) if graded else None
    if invalid or reading is None:
        verdict, reasons, worst, best = Verdict.INVALID, invalid, None, None
    else:
        verdict, reasons, worst, best = _decide(pairing, policy, comparison)
    return GateResult(
        verdict=verdict,
        reasons=tuple(reasons),
        notes=tuple(notes),
        comparison=comparison,
        policy=policy,
        reading=reading,
        worst=worst,
        best=best,
        outlook=outlook(totals_of(graded, policy), policy) if graded else None,
        quarantined=taken_out.reasons,
    )


def _without(run: Run, taken_out: Quarantined) -> Run:
    return replace(run, tasks={name: task for name, task in run.tasks.items() if name not in taken_out.reasons})


def _invalid(base: Run, new: Run, pairing: Pairing, policy: Policy, comparison: Comparison) -> list[str]:
    """Why these runs cannot be judged, one line each."""
    found = []
    if not pairing.complete and not policy.intersect:
        found.append(f"the runs are not of the same tasks ({pairing.left_out}); --intersect judges the shared ones")
    if base.pass_mark != new.pass_mark:
        found.append(f"the pass mark differs: {base.pass_mark:g} in the baseline, {new.pass_mark:g} in the job")
    if base.attempts != new.attempts and not policy.any_attempts:
        found.append(
            f"the attempts per task differ: {base.attempts} in the baseline, {new.attempts} in the job; "
            "--any-attempts allows it"
        )
    for name, run in (("baseline", base), ("job", new)):
        if run.total and run.missing / run.total > policy.max_infra + 1e-12:
            why = ", ".join(f"{count} {outcome}" for outcome, count in run.unscored.items())
            found.append(
                f"{run.missing} of {run.total} attempts of the {name} say nothing of the agent ({why or 'missing'}): "
                f"{run.missing / run.total:.1%}, allowed are {policy.max_infra:.1%}"
            )
    ungraded = pairing.ungraded
    if pairing.pairs and len(ungraded) / len(pairing.pairs) > policy.max_missing_tasks + 1e-12:
        found.append(
            f"{len(ungraded)} of {len(pairing.pairs)} tasks have no attempt that counts in both runs, allowed are "
            f"{policy.max_missing_tasks:.1%}"
        )
    if len(pairing.graded) < policy.min_tasks:
        found.append(f"only {len(pairing.graded)} tasks can be compared, needed are {policy.min_tasks}")
    for category in dict.fromkeys((*policy.pinned, *(floor.category for floor in policy.floors))):
        if not pairs_of(pairing.graded, category):
            found.append(f"no task of category {category} can be compared, but something is asked of it")
    if policy.max_cost_increase is not None and comparison.cost is None:
        found.append("the cost of these runs is unknown, so --max-cost-increase cannot be kept")
    return found


def _decide(pairing: Pairing, policy: Policy, comparison: Comparison) -> tuple[Verdict, list[str], Verdict, Verdict]:
    verdict, reasons = _evaluate(pairing.graded, policy, comparison)
    if not any(task.missing for both in pairing.pairs for task in both):
        return verdict, reasons, verdict, verdict
    worst, _ = _evaluate([(_resolved(b, True), _resolved(n, False)) for b, n in pairing.pairs], policy, comparison)
    best, _ = _evaluate([(_resolved(b, False), _resolved(n, True)) for b, n in pairing.pairs], policy, comparison)
    if worst is best:
        return (verdict, reasons, worst, best) if verdict is worst else (worst, [_bounds(worst, best)], worst, best)
    return Verdict.INCONCLUSIVE, [_bounds(worst, best), *reasons], worst, best


def _bounds(worst: Verdict, best: Verdict) -> str:
    return f"the missing attempts could decide it: {worst.value} if all failed, {best.value} if all passed"


def _resolved(task: TaskRun, passes: bool) -> TaskRun:
    """The task if all that is missing had passed, or failed."""
    more = task.missing if passes else 0
    return replace(task, counted=task.total, passed=task.passed + more, rewards=task.rewards + more)


def _evaluate(pairs: Pairs, policy: Policy, comparison: Comparison) -> tuple[Verdict, list[str]]:
    """The rule, the floors, the pinned categories, the tasks that must pass and the cost."""
    pairs = [both for both in pairs if both[0].counted and both[1].counted]
    reading = read(totals_of(pairs, policy), policy)
    failed = [
        *([_regression(reading, policy, len(pairs))] if reading.verdict is Verdict.FAIL else []),
        *floors_missed(pairs, policy),
        *pinned_worse(pairs, policy),
        *must_pass_broken(pairs, policy),
        *too_dear(comparison, policy),
    ]
    if failed:
        return Verdict.FAIL, failed
    return reading.verdict, [_no_regression(reading, policy)]


def _regression(reading: Reading, policy: Policy, tasks: int) -> str:
    return (
        f"the {policy.metric.words} fell by {points(-reading.difference)} on {tasks} tasks; chance alone does that "
        f"with p = {reading.p:.2g}, at most {policy.alpha:g} was asked"
    )


def _no_regression(reading: Reading, policy: Policy) -> str:
    seen = f"the {policy.metric.words} changed by {points(reading.difference, sign=True)}"
    bound = f"(one-sided {1 - policy.alpha:.0%} bound {points(reading.lower, sign=True)})"
    if reading.verdict is Verdict.PASS and reading.lower <= -policy.margin:
        return f"{seen}; it did not fall, which was asked, but a drop of {points(policy.margin)} is possible {bound}"
    if reading.verdict is Verdict.PASS:
        return f"{seen}; a drop of {points(policy.margin)} is ruled out {bound}"
    undecided = f"neither is a regression proven (p = {reading.p:.2g}) nor a drop of {points(policy.margin)} ruled out"
    return f"{seen}; {undecided} {bound}"


def _notes(comparison: Comparison, policy: Policy) -> list[str]:
    found = []
    if not comparison.pairing.complete and policy.intersect:
        found.append(f"left out: {comparison.pairing.left_out}")
    if ungraded := comparison.pairing.without_verdict:
        found.append(f"left out for want of attempts that count: {ungraded}")
    if comparison.imbalance <= 0.05:
        found.append(f"attempts went missing unequally often in the two runs (Fisher p = {comparison.imbalance:.2g})")
    for category in policy.pinned:
        if (tasks := len(pairs_of(comparison.pairing.graded, category))) < 30:
            found.append(f"pinned category {category} has only {tasks} tasks; a test of it finds little below 30")
    changed = comparison.overall.changed if comparison.overall else 0
    if changed > 0 and 2.0**-changed > policy.alpha:
        found.append(f"only {changed} tasks changed: with so few no p-value can reach {policy.alpha:g}")
    if comparison.base.agent != comparison.new.agent or comparison.base.model != comparison.new.model:
        found.append("the runs are of different agents or models")
    return found
