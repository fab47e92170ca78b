"""`harness run`: evaluate an agent on tasks."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.tracing import ToLangSmith, ToOtel, make_exporters
from harness.cli.upstream import weighted
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.job.config import JobConfig

_WHAT, _HOW, _LIMITS, _OUTPUT = "What to run", "How", "Limits", "Output"


def run(
    dataset: Annotated[
        str | None,
        typer.Argument(help="A folder of tasks, one task, a bundled suite, or git+URL@revision#path."),
    ] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", help="A bundled suite by name, e.g. hello.", rich_help_panel=_WHAT)
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option("--include", metavar="GLOB", help="Only tasks whose name fits this glob.", rich_help_panel=_WHAT),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="GLOB", help="No task whose name fits this glob.", rich_help_panel=_WHAT),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            "--category", metavar="NAME", help="Only tasks of this category (repeatable).", rich_help_panel=_WHAT
        ),
    ] = None,
    n_tasks: Annotated[
        int | None, typer.Option("--n-tasks", min=1, help="At most so many.", rich_help_panel=_WHAT)
    ] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Draw them at random, by --seed.", rich_help_panel=_WHAT)
    ] = False,
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            "-a",
            help="A built-in, a table \\[agents.NAME] of harness.toml, or module:Class.",
            rich_help_panel=_WHAT,
        ),
    ] = "oracle",
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Replaces the agent's model.", rich_help_panel=_WHAT)
    ] = None,
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            "--upstream",
            metavar="URL[=WEIGHT]",
            help="Where the agent's model is served, e.g. http://gpu:8000/v1; several for agents of their own loop.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", help="key=value for the agent; the value is TOML or text.", rich_help_panel=_WHAT
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user", help="An agent whose model speaks for the tasks' simulated users.", rich_help_panel=_WHAT
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Use this harness.toml.", rich_help_panel=_WHAT)
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", "-b", help="Where sandboxes run (see harness doctor).", rich_help_panel=_HOW)
    ] = "local",
    attempts: Annotated[
        int, typer.Option("--n-attempts", "-k", min=1, max=10_000, help="Attempts of each task.", rich_help_panel=_HOW)
    ] = 1,
    concurrent: Annotated[
        int, typer.Option("--n-concurrent", "-n", min=1, help="Trials at a time.", rich_help_panel=_HOW)
    ] = 4,
    max_sandboxes: Annotated[
        int | None,
        typer.Option(
            "--max-sandboxes", min=1, help="Live sandboxes of a cloud at a time: your plan's.", rich_help_panel=_HOW
        ),
    ] = None,
    retries: Annotated[
        int,
        typer.Option("--max-retries", min=0, help="Repetitions of what infrastructure failed.", rich_help_panel=_HOW),
    ] = 2,
    seed: Annotated[int, typer.Option("--seed", help="Of the draw and of the attempts.", rich_help_panel=_HOW)] = 0,
    allow_unsafe: Annotated[
        bool,
        typer.Option(
            "--allow-unsafe-local",
            help="Run locally even where nothing isolates: commands can then reach this machine.",
            rich_help_panel=_HOW,
        ),
    ] = False,
    agent_timeout: Annotated[
        float | None,
        typer.Option("--agent-timeout", min=0.001, help="Seconds; replaces the tasks' own.", rich_help_panel=_LIMITS),
    ] = None,
    timeout_multiplier: Annotated[
        float,
        typer.Option(
            "--timeout-multiplier", min=0.001, help="Stretches the tasks' time-outs.", rich_help_panel=_LIMITS
        ),
    ] = 1.0,
    pass_mark: Annotated[
        float, typer.Option("--pass-mark", help="The reward from which an attempt passes.", rich_help_panel=_LIMITS)
    ] = 1.0,
    sequential: Annotated[
        float | None,
        typer.Option(
            "--sequential",
            metavar="RATE",
            help="End as soon as it is decided whether the success rate is below RATE. Tasks run in random order.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", help="How often that may be decided wrongly.", rich_help_panel=_LIMITS)
    ] = 0.05,
    max_infra: Annotated[
        float,
        typer.Option(
            "--max-infra",
            min=0,
            max=1,
            help="Exit 3 above this share of infrastructure errors.",
            rich_help_panel=_LIMITS,
        ),
    ] = 0.05,
    fail_under: Annotated[
        float | None,
        typer.Option("--fail-under", min=0, max=1, help="Exit 1 below this success rate.", rich_help_panel=_LIMITS),
    ] = None,
    jobs_dir: Annotated[
        Path, typer.Option("--jobs-dir", help="Where the job's folder is made.", rich_help_panel=_OUTPUT)
    ] = Path("jobs"),
    name: Annotated[
        str | None, typer.Option("--name", help="The job's folder; by default the time.", rich_help_panel=_OUTPUT)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines on standard output.", rich_help_panel=_OUTPUT)
    ] = False,
    plain_lines: Annotated[
        bool, typer.Option("--plain", help="Lines instead of a live panel.", rich_help_panel=_OUTPUT)
    ] = False,
    langsmith: ToLangSmith = None,
    otel: ToOtel = None,
) -> int:
    """Run an agent on tasks and record every attempt.

    Exit codes: 0 the job ran, 1 the success rate is below --fail-under, 2 the request cannot be, 3 more infrastructure
    errors than --max-infra or nothing scored, 130 interrupted. Ctrl-C finishes what runs; a second one stops it.
    """
    from harness.agents.config_file import find_config
    from harness.cli.drive import drive
    from harness.job.runner import run_job
    from harness.store.layout import JobPaths

    if (dataset is None) == (suite is None):
        raise UsageError("name what to run: a dataset, or --suite NAME")
    found = config or find_config(Path.cwd())
    job = _checked(
        dataset=suite or _from_anywhere(dataset or ""),
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        categories=tuple(category or ()),
        n_tasks=n_tasks,
        shuffle=shuffle,
        seed=seed,
        agent=agent,
        model=model,
        options={**_upstream(upstream or []), **_options(option or [])},
        user=user,
        config_file=str(found.resolve()) if found else None,
        backend=backend,
        n_attempts=attempts,
        n_concurrent=concurrent,
        max_sandboxes=max_sandboxes,
        max_retries=retries,
        agent_timeout=agent_timeout,
        timeout_multiplier=timeout_multiplier,
        pass_mark=pass_mark,
        sequential=sequential,
        alpha=alpha,
        allow_unsafe_local=allow_unsafe,
    )
    paths = JobPaths(jobs_dir / _job_name(name))
    exporters = make_exporters(paths.root, langsmith=langsmith, otel=otel)
    return drive(
        lambda emit, on_start: run_job(job, paths, subscribers=[emit, *exporters], on_start=on_start),
        exporters=exporters,
        as_json=as_json,
        plain_lines=plain_lines,
        max_infra=max_infra,
        fail_under=fail_under,
    )


def _checked(**fields: Any) -> JobConfig:
    from pydantic import ValidationError

    from harness.job.config import JobConfig

    try:
        return JobConfig(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = "--" + "-".join(str(part) for part in first["loc"]).replace("_", "-")
        raise UsageError(f"{name}: {first['msg']}, not {first['input']!r}") from None


def _from_anywhere(dataset: str) -> str:
    """A folder by its full path, so that the job can be resumed from another folder; anything else as it is."""
    from harness.task.suites import bundled_suites

    if dataset.partition("/")[0] in bundled_suites() or not Path(dataset).is_dir():
        return dataset
    return str(Path(dataset).resolve())


def _job_name(name: str | None) -> str:
    if name is None:
        return datetime.now().strftime("%Y-%m-%d__%H-%M-%S-%f")[:-3]
    if not name or name.startswith(".") or "/" in name or not name.isprintable() or len(name.encode()) > 200:
        raise UsageError(f"--name {name!r} is not a folder's name")
    return name


def _upstream(urls: list[str]) -> dict[str, Any]:
    """The agent's setting for one address, or for several with their weights."""
    weights = dict(map(weighted, urls))
    if not weights:
        return {}
    return {"upstreams": weights} if len(weights) > 1 else {"base_url": next(iter(weights))}


def _options(pairs: list[str]) -> dict[str, Any]:
    """`key=value` pairs; a value that is TOML (a number, true, a list) is taken as such, anything else as text."""
    import tomllib

    from harness.redaction import is_secret_name

    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--option {pair!r} is not key=value")
        if is_secret_name(key.rpartition(".")[2]):
            raise UsageError(
                f"--option {key} looks like a secret, and options are recorded: name its variable, api_key_env=..."
            )
        try:
            options[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            options[key] = text
    return options
