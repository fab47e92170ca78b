"""What a turn called, and whether that failed, stands beside its tokens: from structured results, never from text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rollouts import call, job_of

from harness.atif.model import Trajectory
from harness.behaviour.shell import program_of
from harness.export.arrow import row_of
from harness.export.read import read_samples
from harness.export.rl import export_rl
from harness.export.schema import Span
from harness.export.shards import plain
from harness.store.layout import JobPaths


def trajectory(path: Path, turns: list[list[tuple[str, dict[str, Any], dict[str, Any] | None]]]) -> None:
    """A trajectory whose turns made these calls: name, arguments, and what is known of the result."""
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "Do it."}]
    for number, calls in enumerate(turns, 2):
        made = [
            {"tool_call_id": f"{number}.{at}", "function_name": name, "arguments": arguments}
            for at, (name, arguments, _) in enumerate(calls)
        ]
        results = [
            {"source_call_id": f"{number}.{at}", "content": "exit code 1: failed", "extra": extra}
            for at, (_, _, extra) in enumerate(calls)
            if extra is not None
        ]
        steps.append(
            {
                "step_id": number,
                "source": "agent",
                "message": "",
                **({"tool_calls": made, "observation": {"results": results}} if made else {}),
            }
        )
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": steps}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Trajectory.model_validate(document).model_dump_json(exclude_none=True), encoding="utf-8")


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_tools_and_their_errors_are_beside_the_tokens_of_their_turn(tmp_path: Path, file_format: Any) -> None:
    calls = [
        replace(call([1], [2], call_id="a"), step_id=2),
        replace(call([1, 2, 3], [4], call_id="b"), step_id=3),
        replace(call([1, 2, 3, 4, 5], [6], call_id="c"), step_id=4),
        replace(call([1, 2, 3, 4, 5, 6, 7], [8], call_id="d"), step_id=9),
    ]
    job = job_of(tmp_path / "job", [calls])
    trajectory(
        JobPaths(job).trial("t0000__1").trajectory(),
        [
            [
                ("bash", {"command": "cd /app && git status"}, {"exit_code": 1}),
                ("read", {"path": "x"}, {"error": None}),
            ],
            [("bash", {"command": "make"}, None)],
            [],
        ],
    )
    export_rl([job], tmp_path / "rows", file_format=file_format)
    (row,) = read_samples(tmp_path / "rows")
    told = [(span.tools, span.tool_errors) for span in row.spans if span.kind == "sampled"]
    assert told == [(("bash:cd", "read"), 1), (("bash:make",), None), ((), 0), (None, None)]


def test_an_attempt_without_a_trajectory_tells_nothing(tmp_path: Path) -> None:
    export_rl([job_of(tmp_path / "job", [[call([1], [2])]])], tmp_path / "rows")
    (row,) = read_samples(tmp_path / "rows")
    assert row.spans[-1].tools is None and row.spans[-1].tool_errors is None


def test_rows_written_before_turns_were_told_are_still_rows(tmp_path: Path) -> None:
    export_rl([job_of(tmp_path / "job", [[call([1], [2])]])], tmp_path / "rows")
    (row,) = read_samples(tmp_path / "rows")
    values = plain(row)
    for span in values["spans"]:
        del span["tools"], span["tool_errors"]
    assert row_of(values | {"logprobs": row.logprobs}).spans == row.spans
    assert Span(start=0, end=1, kind="context").tools is None


@pytest.mark.parametrize(
    ("command", "name"),
    [("cd /app && make", "cd"), ("FOO=1 /usr/bin/git status", "git"), ("", ""), ("if true; then ls; fi", "true")],
)
def test_a_command_is_named_by_its_first_program(command: str, name: str) -> None:
    assert program_of(command) == name
