"""What `harness run` refuses before anything is made, and how it counts on the way."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from harness.cli.display import PlainDisplay
from harness.cli.main import main
from harness.cli.run import _upstream
from harness.job.runner import RunningJob
from harness.job.summary import JobSummary
from harness.records import AgentInfo, TrialResult
from harness.store.layout import JobPaths
from harness.trial.events import TrialFinished, TrialRetried


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["-k", "99999999999999999999"], "--n-attempts"),
        (["--name", "a\nb"], "--name"),
        (["--name", "a\x1b[31m"], "--name"),
        (["-o", "parameters.extra_headers.Authorization=x1"], "looks like a secret"),
        (["-o", "parameters.api_key=x1"], "looks like a secret"),
    ],
)
def test_a_request_that_cannot_be_is_one_line_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    assert main(["run", "hello", "--jobs-dir", str(tmp_path / "jobs"), *options]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert len(said.splitlines()) == 1
    assert "\x1b" not in said
    assert not (tmp_path / "jobs").exists()


def test_an_attempt_that_is_repeated_is_not_counted_as_done(tmp_path: Path) -> None:
    out = io.StringIO()
    display = PlainDisplay(Console(file=out, width=200))
    job = RunningJob(
        paths=JobPaths(tmp_path), summary=JobSummary(n_total=1), n_owed=1, sandboxes="local", stop=lambda how: None
    )
    result = TrialResult(
        id="i",
        task_name="t",
        trial_name="t__1",
        trial_uri="file:///t",
        task_id={},
        task_checksum="",
        config={},
        agent_info=AgentInfo(name="a", version="1"),
    )
    display.start(job)
    for event in (TrialFinished(result), TrialRetried(result, 0.0), TrialFinished(result)):
        display.event(event)
    assert out.getvalue().count("[1/1]") == 2
    assert "[2/1]" not in out.getvalue()


@pytest.mark.parametrize(
    ("urls", "setting"),
    [
        ([], {}),
        (["http://gpu:8000/v1"], {"base_url": "http://gpu:8000/v1"}),
        (["http://a/v1?x=y"], {"base_url": "http://a/v1?x=y"}),
        (["http://a/v1=2", "http://b/v1"], {"upstreams": {"http://a/v1": 2.0, "http://b/v1": 1.0}}),
    ],
)
def test_an_upstream_is_the_agent_s_base_url_and_several_are_its_upstreams(
    urls: list[str], setting: dict[str, object]
) -> None:
    assert _upstream(urls) == setting
