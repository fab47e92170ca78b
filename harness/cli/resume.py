"""`harness resume`: finish a job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.tracing import ToLangSmith, ToOtel, make_exporters


def resume(
    job: Annotated[Path, typer.Argument(help="The job's folder.")],
    attempts: Annotated[
        int | None,
        typer.Option("--n-attempts", "-k", min=1, max=10_000, help="Add attempts, up to so many of each task."),
    ] = None,
    concurrent: Annotated[int | None, typer.Option("--n-concurrent", "-n", min=1, help="Trials at a time.")] = None,
    max_sandboxes: Annotated[
        int | None, typer.Option("--max-sandboxes", min=1, help="Live sandboxes of a cloud at a time: your plan's.")
    ] = None,
    keep_errors: Annotated[
        bool, typer.Option("--keep-errors", help="Leave attempts that infrastructure failed as they are.")
    ] = False,
    no_sequential: Annotated[
        bool, typer.Option("--no-sequential", help="Run all of a job that its stop rule has ended, or would end.")
    ] = False,
    max_infra: Annotated[
        float, typer.Option("--max-infra", min=0, max=1, help="Exit 3 above this share of infrastructure errors.")
    ] = 0.05,
    fail_under: Annotated[
        float | None, typer.Option("--fail-under", min=0, max=1, help="Exit 1 below this success rate.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines on standard output.")] = False,
    plain_lines: Annotated[bool, typer.Option("--plain", help="Lines instead of a live panel.")] = False,
    langsmith: ToLangSmith = None,
    otel: ToOtel = None,
) -> int:
    """Finish a job: run exactly what is still owed.

    Owed is every attempt that was not run, was interrupted or cancelled, or was failed by infrastructure. Refuses if
    the agent, its model, the backend or a task has changed. Sandboxes that a killed run left behind are removed. A job
    of --sequential that is decided owes nothing.
    """
    from harness.cli.drive import drive
    from harness.job.runner import resume_job
    from harness.store.layout import JobPaths

    exporters = make_exporters(job, langsmith=langsmith, otel=otel)
    return drive(
        lambda emit, on_start: resume_job(
            JobPaths(job),
            n_attempts=attempts,
            n_concurrent=concurrent,
            max_sandboxes=max_sandboxes,
            keep_errors=keep_errors,
            sequential=not no_sequential,
            subscribers=[emit, *exporters],
            on_start=on_start,
        ),
        exporters=exporters,
        as_json=as_json,
        plain_lines=plain_lines,
        max_infra=max_infra,
        fail_under=fail_under,
    )
