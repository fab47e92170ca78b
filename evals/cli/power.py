"""Say how surely the gate would find a drop of a given size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def power(
    baseline: Annotated[Path, typer.Option("--baseline", help="A job's folder or a baseline file.")],
    drop: Annotated[str, typer.Option("--drop", help="The drop to find.")] = "5pp",
    attempts: Annotated[
        list[int] | None, typer.Option("--attempts", "-k", min=1, help="Attempts per task; repeat to compare.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="The gate's.")] = 0.05,
    min_effect: Annotated[str, typer.Option(help="The gate's.")] = "2pp",
    margin: Annotated[str, typer.Option(help="The gate's.")] = "5pp",
    replications: Annotated[int, typer.Option(min=100, help="Simulated gates per row.")] = 1000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> int:
    """Simulate the gate on the baseline's tasks: if nothing changed, and if the success rate fell by --drop."""
    from evals.baseline import load_run
    from evals.gate.policy import Policy, share
    from evals.gate.rule import Verdict
    from evals.gate.simulate import rates_of, shares
    from harness.cli.text import plain
    from harness.errors import UsageError

    policy = Policy(alpha=alpha, min_effect=share(min_effect, "--min-effect"), margin=share(margin, "--margin"))
    size = share(drop, "--drop")
    run = load_run(baseline)
    counts = [(task.passed, task.counted) for task in run.tasks.values() if task.counted]
    if not counts:
        raise UsageError(f"{baseline} has no attempt that says something of the agent")
    rates = rates_of(counts)
    rows = []
    for each in attempts or sorted({run.attempts, run.attempts + 2, 2 * run.attempts}):
        for fall in (0.0, size):
            found = shares(rates, attempts=each, drop=fall, policy=policy, replications=replications, seed=seed)
            rows.append({"attempts": each, "drop": fall, **{verdict.value: found[verdict] for verdict in found}})
    if as_json:
        document = {"format": "harness-power", "version": 1, "tasks": len(counts), "replications": replications}
        typer.echo(json.dumps({**document, "rows": rows}, allow_nan=False))
        return 0
    typer.echo(plain(f"{run.label}: {len(counts)} tasks; each row is {replications} simulated gates"))
    typer.echo(f"{'attempts':>8}  {'true drop':>9}  {'fail':>6}  {'pass':>6}  {'inconclusive':>12}")
    for row in rows:
        typer.echo(
            f"{row['attempts']:>8}  {100 * row['drop']:>7.1f}pp  {row[Verdict.FAIL.value]:>6.1%}  "
            f"{row[Verdict.PASS.value]:>6.1%}  {row[Verdict.INCONCLUSIVE.value]:>12.1%}"
        )
    return 0
