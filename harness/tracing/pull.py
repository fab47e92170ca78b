"""Which trials of a job LangSmith selects: `python -m harness.tracing.pull JOB FILTER [PROJECT]`, a name a line.

Asks by the address that the SDK itself asks, and not by a function of its: those are about to change.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError
from harness.tracing.experiment import experiment_name
from harness.tracing.job import read_job
from harness.tracing.langsmith import make_client, reason
from harness.tracing.settings import LangSmithSettings

if TYPE_CHECKING:
    from langsmith import Client

_PAGE = 100


def main() -> int:
    """Print what is selected. Exit code 2 and one line on standard error where that cannot be."""
    job = read_job(Path(sys.argv[1]))
    settings = LangSmithSettings.of(os.environ, next(iter(sys.argv[3:]), None))
    name = experiment_name(job, settings.project)
    try:
        client = make_client(settings, [])
        for run in _roots(client, name, sys.argv[2]):
            metadata = (run.get("extra") or {}).get("metadata") or {}
            if metadata.get("job_id") == job.job_id:
                print(metadata.get("trial_name", ""))  # noqa: T201 – its output is its answer
    except UsageError as error:
        return _refuse(str(error))
    except Exception as error:  # noqa: BLE001 – whatever an SDK raises is one line here
        if type(error).__name__ == "LangSmithNotFoundError":
            return _refuse(f"LangSmith has no experiment {name!r}: harness langsmith push {job.paths.root}")
        return _refuse(f"LangSmith: {reason(error)}")
    return 0


def _roots(client: Client, experiment: str, chosen: str) -> Iterator[dict[str, Any]]:
    body: dict[str, Any] = {
        "session": [str(client.read_project(project_name=experiment).id)],
        "is_root": True,
        "select": ["id", "extra"],
        "limit": _PAGE,
        **({"filter": chosen} if chosen else {}),
    }
    while True:
        page = client.request_with_retries("POST", "/runs/query", json=body, stop_after_attempt=3).json()
        yield from page.get("runs") or ()
        cursor = (page.get("cursors") or {}).get("next")
        if not cursor:
            return
        body["cursor"] = cursor


def _refuse(line: str) -> int:
    print(line, file=sys.stderr)  # noqa: T201
    return 2


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # an SDK's threads would hold the exit
