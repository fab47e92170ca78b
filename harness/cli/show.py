"""`harness show`: a job, or one trial with its trajectory, in the terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.trajectory import Selection, show_trajectory
from harness.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from harness.job.summary import Finished, JobSummary
    from harness.records import TrialResult, UserRecord


def show(
    path: Annotated[Path, typer.Argument(help="A job's folder, a trial's folder, or a trajectory.json.")],
    step: Annotated[int | None, typer.Option("--step", min=1, help="Only this step of the trajectory.")] = None,
    tail: Annotated[int | None, typer.Option("--tail", min=1, help="Only the last steps.")] = None,
    grep: Annotated[str | None, typer.Option("--grep", help="Only steps that match this regular expression.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten long texts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The job's summary, or the trial's record, as JSON.")] = False,
) -> int:
    """Show a job's results, or one trial's trajectory. Reads job folders of Harbor, too."""
    from rich.console import Console

    from harness.store.index.folders import is_trial

    console = Console(highlight=False, emoji=False)
    if grep is not None:
        try:
            re.compile(grep)
        except re.error as error:
            raise UsageError(f"--grep {grep!r} is not a regular expression: {error}") from None
    selection = Selection(step=step, tail=tail, grep=grep, full=full)
    if path.name == "result.json":
        path = path.parent
    if path.is_file():
        show_trajectory(path, console, selection)
    elif (path / "task.toml").exists():
        raise UsageError(f"{path} is a task: harness tasks show {path}")
    elif is_trial(path):
        _show_trial(path, console, selection, as_json)
    elif path.is_dir():
        _show_job(path, console, as_json)
    else:
        raise UsageError(f"{path} does not exist")
    return 0


def _show_job(path: Path, console: Console, as_json: bool) -> None:
    from harness.cli.display import end_table
    from harness.cli.text import plain
    from harness.job.progress import load_summary, summary_document
    from harness.store.index.folders import require_job

    summary, findings = load_summary(require_job(path))
    if as_json:
        console.print_json(json.dumps({"job": str(path), **summary_document(summary), "findings": findings}))
        return
    console.print(end_table(summary))
    counts = ", ".join(f"{count} {name}" for name, count in summary.counts.items() if count)
    console.print(f"{summary.n_total} attempts: {counts}", markup=False)
    console.print()
    console.print(_trials_table(summary))
    for finding in findings:
        console.print(f"note: {plain(finding)}", markup=False, soft_wrap=True)


def _trials_table(summary: JobSummary) -> object:
    from rich.markup import escape
    from rich.table import Table

    from harness.cli.text import duration, plain

    table = Table(show_edge=False, pad_edge=False)
    for name in ("trial", "outcome", "reward", "failure", "time"):
        table.add_column(name, overflow="fold")

    def order(finished: Finished) -> tuple[bool, str]:
        return summary.passed(finished), finished.name

    for finished in sorted(summary.last.values(), key=order):
        table.add_row(
            escape(plain(finished.name)),
            finished.outcome.value,
            "-" if finished.reward is None else f"{finished.reward:g}",
            escape(plain(finished.tag or finished.exception or "")),
            duration(finished.seconds),
        )
    return table


def _show_trial(path: Path, console: Console, selection: Selection, as_json: bool) -> None:
    from rich.markup import escape

    from harness.cli.text import plain
    from harness.store.layout import TrialPaths
    from harness.store.reader import load_result

    try:
        result = load_result(path / "result.json")
    except FileNotFoundError:
        console.print(f"{path.name} has no result: it was interrupted, or still runs", markup=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path / 'result.json'} cannot be read: {str(error).splitlines()[0]}") from None
    else:
        if as_json:
            console.print_json(result.model_dump_json())
            return
        _print_facts(result, console)
    for trajectory in TrialPaths(path).trajectories():
        console.rule(escape(plain(str(trajectory.relative_to(path)))), characters="-")
        show_trajectory(trajectory, console, selection)
    if result_tail := _verifier_tail(path):
        console.rule("verifier", characters="-")
        console.print(result_tail, markup=False)


def _verifier_tail(path: Path) -> str:
    from harness import packed
    from harness.cli.text import plain
    from harness.store.layout import TrialPaths

    try:
        output = packed.read_bytes(TrialPaths(path).verifier() / "test-stdout.txt")
    except (OSError, ValueError):
        return ""
    return "\n".join(plain(line) for line in output[-2000:].decode("utf-8", "replace").splitlines())


def _print_facts(result: TrialResult, console: Console) -> None:
    from harness.cli.text import duration, plain

    facts = {
        "task": result.task_name,
        "agent": f"{result.agent_info.name} {result.agent_info.version}"
        + (f" ({result.agent_info.model_info.name})" if result.agent_info.model_info else ""),
        "outcome": (result.outcome.value if result.outcome else "unknown")
        + (f", reward {result.reward:g}" if result.reward is not None else ", no reward"),
    }
    if result.verifier_result and result.verifier_result.rewards and len(result.verifier_result.rewards) > 1:
        facts["rewards"] = ", ".join(f"{key}={value:g}" for key, value in result.verifier_result.rewards.items())
    if result.failure:
        facts["failure"] = f"{result.failure.tag} ({result.failure.category.value}, {result.failure.layer.value})"
        facts["because"] = result.failure.message
    if result.user:
        facts["user"] = _user(result.user)
    if result.agent_result and result.agent_result.n_calls:
        usage = result.agent_result
        facts["tokens"] = f"{usage.n_sampled_calls} of {usage.n_calls} calls with sampled tokens on record"
        if not usage.n_sampled_calls:
            facts["tokens"] = "text only"
    if result.sandbox:
        facts["sandbox"] = f"{result.sandbox.backend}, isolation: {result.sandbox.isolation}"
    timings = {
        "environment": result.environment_setup,
        "agent": result.agent_execution,
        "verifier": result.verifier,
    }
    facts["time"] = ", ".join(f"{name} {duration(timing.seconds)}" for name, timing in timings.items() if timing)
    for name, value in facts.items():
        console.print(f"{name:>8}: {plain(value)}", markup=False, soft_wrap=True)
    for exchange in result.user.exchanges if result.user else ():
        where = f"[{exchange.step}] " if exchange.step else ""
        console.print(f"{'asked':>8}: {where}{plain(exchange.question)}", markup=False, soft_wrap=True)
        answer = plain(exchange.answer) + ("" if exchange.matched else "  (its default)")
        console.print(f"{'told':>8}: {answer}", markup=False, soft_wrap=True)


def _user(user: UserRecord) -> str:
    """What became of the simulated user, in a line."""
    told = f"asked {user.questions} times, answered {user.answered}"
    if user.turns:
        told += f"; went on {user.turns} times"
    if user.usage:
        tokens = (user.usage.n_input_tokens or 0) + (user.usage.n_output_tokens or 0)
        told += f"; spoken for by a model in {user.usage.n_calls} calls, {tokens} tokens"
    return told
