"""`harness tasks`: which tasks a dataset has, what one of them says, and a new one to start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.tasks_check import check

if TYPE_CHECKING:
    from harness.task.model import BrokenTask, Limit, Step, Task

app = typer.Typer(help="List, show and check tasks, and begin a new one.", no_args_is_help=True, add_completion=False)

app.command("check")(check)

Globs = list[str]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command("list")
def list_tasks(
    dataset: Annotated[str, typer.Argument(help="A bundled suite, a folder, or git+URL@revision#path.")],
    *,
    include: Annotated[Globs | None, typer.Option(help="Keep names that match this glob (repeatable).")] = None,
    exclude: Annotated[Globs | None, typer.Option(help="Leave out names that match this glob (repeatable).")] = None,
    category: Annotated[list[str] | None, typer.Option(help="Keep tasks of this category (repeatable).")] = None,
    n_tasks: Annotated[int | None, typer.Option(help="At most so many, after the filters.")] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Draw them at random, by --seed.")] = False,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List the tasks of DATASET."""
    from harness.task.dataset import load_dataset

    tasks = load_dataset(
        dataset,
        include=include or (),
        exclude=exclude or (),
        categories=category or (),
        n=n_tasks,
        seed=seed if shuffle else None,
    )
    if as_json:
        typer.echo(json.dumps([_summary(task) for task in tasks], indent=2, ensure_ascii=False))
    else:
        _print_table(tasks)


@app.command("show")
def show_task(
    task: Annotated[str, typer.Argument(help="A task's folder, or SUITE/TASK.")], as_json: AsJson = False
) -> None:
    """Show what one task says: its instruction, its limits and who set them, and what is odd about it."""
    from harness.errors import UsageError
    from harness.task.dataset import load_dataset
    from harness.task.model import BrokenTask

    found = load_dataset(task)
    if len(found) > 1:
        raise UsageError(f"{task} holds {len(found)} tasks: see `harness tasks list`, and show one of them")
    if isinstance(found[0], BrokenTask):
        raise UsageError(f"{found[0].name}: {found[0].reason}")
    if as_json:
        typer.echo(json.dumps(_details(found[0]), indent=2, ensure_ascii=False))
    else:
        _print_details(found[0])


@app.command("init")
def init_task(
    directory: Annotated[Path, typer.Argument(help="The folder to hold the new task's folder.")],
    name: Annotated[str, typer.Argument(help="The new task's name.")],
) -> None:
    """Write a small task that works as it stands, to be changed into another one."""
    from harness.task.scaffold import write_task

    folder = write_task(directory, name)
    typer.echo(f"wrote {folder}\ntry it: harness run {folder} --agent oracle")


def _summary(task: Task | BrokenTask) -> dict[str, object]:
    from harness.task.model import BrokenTask
    from harness.task.tree import show_path

    path = show_path(str(task.path))
    if isinstance(task, BrokenTask):
        return {"name": task.name, "broken": task.reason, "unsupported": task.unsupported, "path": path}
    return {
        "name": task.name,
        "categories": list(task.categories),
        "tags": list(task.tags),
        "difficulty": task.difficulty,
        "steps": len(task.steps),
        "digest": task.digest,
        "findings": len(task.findings),
        "path": path,
    }


def _details(task: Task) -> dict[str, object]:
    return {
        **_summary(task),
        "source": task.source,
        "reward_range": list(task.reward_range),
        "reward_strategy": task.reward_strategy,
        "limits": [{"limit": name, "value": value, "origin": origin} for name, value, origin in _limits(task)],
        "findings": [{"path": item.path, "key": item.key, "message": item.message} for item in task.findings],
        "instructions": [{"step": step.name, "text": step.instruction} for step in task.steps],
        "metadata": dict(task.metadata),
    }


def _limits(task: Task) -> list[tuple[str, float | str | None, str]]:
    """Every limit with its value and its origin; None leaves it to the backend."""
    environment = task.environment
    rows = [_row("build_timeout_sec", environment.build_timeout)]
    values: dict[str, float | str | None] = {
        "network": environment.network.value,
        "cpus": environment.resources.cpus,
        "memory_mb": environment.resources.memory_mb,
        "disk_mb": environment.resources.disk_mb,
        "gpus": environment.resources.gpus,
    }
    rows += [(name, value, environment.origins.get(name, "default")) for name, value in values.items()]
    for step in task.steps:
        rows.append(_row(_of("agent_timeout_sec", step), step.agent_timeout))
        rows.append(_row(_of("verifier_timeout_sec", step), step.verifier_timeout))
    return rows


def _row(name: str, limit: Limit) -> tuple[str, float | str | None, str]:
    return name, limit.value, limit.origin


def _of(name: str, step: Step) -> str:
    return name if step.name is None else f"{step.name}: {name}"


def _print_table(tasks: list[Task | BrokenTask]) -> None:
    from rich.console import Console
    from rich.table import Table

    from harness.task.model import BrokenTask

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("task", "category", "difficulty", "steps", "notes"):
        table.add_column(title, overflow="fold")
    for task in tasks:
        if isinstance(task, BrokenTask):
            kind = "unsupported" if task.unsupported else "broken"
            table.add_row(_safe(task.name), "-", "-", "-", f"[red]{kind}[/]: {_safe(task.reason)}")
            continue
        notes = f"[yellow]{len(task.findings)} findings[/]" if task.findings else ""
        category, difficulty = ", ".join(task.categories) or "-", task.difficulty or "-"
        table.add_row(_safe(task.name), _safe(category), _safe(difficulty), str(len(task.steps)), notes)
    console = Console(highlight=False, emoji=False)
    console.print(table)
    broken = sum(isinstance(task, BrokenTask) for task in tasks)
    console.print(f"\n{len(tasks)} tasks" + (f", {broken} of them cannot run" if broken else ""))


def _print_details(task: Task) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, emoji=False)
    console.print(f"[bold]{_safe(task.name)}[/]  {_safe(', '.join(task.categories))}  {_safe(task.difficulty or '')}")
    console.print(task.digest, soft_wrap=True)
    for step in task.steps:
        title = "instruction" if step.name is None else f"step {step.name}"
        console.print(f"\n[bold]{_safe(title)}[/]\n{_safe(step.instruction.rstrip())}", soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("limit", "value", "set by"):
        table.add_column(column)
    for name, value, origin in _limits(task):
        shown = "backend's" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        table.add_row(_safe(name), shown, origin)
    console.print()
    console.print(table)
    for item in task.findings:
        where = " ".join(part for part in (item.path, item.key) if part)
        console.print(f"\n[yellow]finding[/] {_safe(where)}: {_safe(item.message)}", soft_wrap=True)


def _safe(text: str) -> str:
    """A task's own words, so that they neither style the output nor steer the terminal."""
    from rich.markup import escape

    return escape("".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text))
