"""LangSmith's own SDK, in the child process, against a server that checks what comes over the wire."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from command_line import harness
from traced_jobs import JOB_ID, SECRET, traced_job
from tracing_servers import DOTTED, LangSmithServer, serving

from harness.store.layout import JobPaths
from harness.tracing.exporter import Exporter, Tally
from harness.tracing.push import push
from harness.tracing.sink import Target

pytest.importorskip("langsmith")

KEY = "lsv2_pt_0123456789"


def settings(server: LangSmithServer, **more: str) -> dict[str, str]:
    """The SDK's variables, without any of this machine's."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LANGSMITH_", "LANGCHAIN_"))}
    return {**env, "LANGSMITH_ENDPOINT": server.url, "LANGSMITH_API_KEY": KEY, **more}


def pushed(job: Path, env: Mapping[str, str], project: str | None = None) -> Tally:
    names = [folder.name for folder in JobPaths(job).trial_folders()]
    return push(Exporter(Target.LANGSMITH, job, project, env=env), names)


@dataclass
class Pushed:
    """A job that was sent twice, and what each time came of it."""

    server: LangSmithServer
    tallies: list[Tally]
    after_first: tuple[dict[str, Any], dict[str, Any]]
    job: Path


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    job = traced_job(tmp_path_factory.mktemp("jobs"))
    with serving(LangSmithServer()) as server:
        server = cast(LangSmithServer, server)
        env = settings(server, MY_PASSWORD=SECRET)
        tallies = [pushed(job, env, "chores")]
        first = ({**server.runs}, {**server.feedback})
        tallies.append(pushed(job, env, "chores"))
        yield Pushed(server, tallies, first, job)


def test_every_trial_is_one_trace(sent: Pushed) -> None:
    assert [(tally.sent, tally.unsent) for tally in sent.tallies] == [(4, 0), (4, 0)]
    roots = [run for run in sent.server.runs.values() if not run.get("parent_run_id")]
    assert {run["extra"]["metadata"]["trial_name"] for run in roots} == {"a__1", "a__2", "b__1", "b__2"}


def test_sending_again_changes_nothing(sent: Pushed) -> None:
    runs, feedback = sent.after_first
    assert len(sent.server.posts) == 2 * len(runs)
    assert sent.server.runs.keys() == runs.keys()
    assert sent.server.feedback.keys() == feedback.keys()
    assert [len(each) for each in (sent.server.datasets, sent.server.sessions, sent.server.examples)] == [1, 1, 2]


def test_runs_nest_as_the_server_demands(sent: Pushed) -> None:
    server = sent.server
    root = server.root("a__1")
    assert [(run["name"], run["run_type"]) for run in server.children(root["id"])] == [
        ("environment", "chain"),
        ("coder", "chain"),
        ("verifier", "chain"),
    ]
    agent = server.children(root["id"])[1]
    calls = server.children(agent["id"])
    assert [run["run_type"] for run in calls] == ["llm", "tool", "tool", "llm", "tool", "llm"]
    (delegate,) = server.children(calls[4]["id"])
    assert [run["name"] for run in server.children(delegate["id"])] == ["glm-5", "bash"]
    for run in server.runs.values():
        assert DOTTED.fullmatch(run["dotted_order"])
        assert run["dotted_order"].endswith(run["id"])
        assert uuid.UUID(run["id"]).version == 7
        assert run["start_time"] <= run["end_time"]
        if parent := run.get("parent_run_id"):
            assert run["dotted_order"].startswith(server.runs[parent]["dotted_order"] + ".")
            assert run["trace_id"] == server.runs[parent]["trace_id"]


def test_a_model_call_tells_its_tokens_its_price_and_its_model(sent: Pushed) -> None:
    agent = sent.server.children(sent.server.root("a__1")["id"])[1]
    call = sent.server.children(agent["id"])[0]
    assert call["outputs"]["usage_metadata"] == {
        "input_tokens": 100,
        "output_tokens": 20,
        "total_tokens": 120,
        "total_cost": 0.1,
        "input_token_details": {"cache_read": 40},
    }
    metadata = call["extra"]["metadata"]
    assert (metadata["ls_model_name"], metadata["ls_temperature"]) == ("glm-5", 0.5)
    assert call["inputs"]["messages"] == [{"role": "user", "content": "Tidy up."}]


def test_the_root_tells_what_was_run_and_errors_where_they_were(sent: Pushed) -> None:
    root = sent.server.root("b__1")
    metadata = root["extra"]["metadata"]
    known = {"task": "acme/b", "attempt": 1, "job_id": JOB_ID, "agent": "coder", "model": "glm-5", "backend": "docker"}
    assert metadata.items() >= known.items()
    assert root["error"].startswith("agent_timeout: it ended with")
    assert "error" not in sent.server.root("a__1")
    assert "runtime" not in root["extra"]


def test_feedback_has_the_marks_and_infrastructure_no_reward(sent: Pushed) -> None:
    assert sent.server.marks("a__2") == {"failure_category": "infra_sandbox", "infra": 1}
    assert sent.server.marks("a__1").items() >= {"reward": 1, "reward.style": 0.5, "success": 1, "infra": 0}.items()
    session = sent.server.sessions["chores/job-0b8a3c52"]["id"]
    assert {each["session_id"] for each in sent.server.feedback.values()} == {session}


def test_a_job_is_an_experiment_on_a_dataset_of_its_tasks(sent: Pushed) -> None:
    server = sent.server
    experiment = server.sessions["chores/job-0b8a3c52"]
    assert experiment["reference_dataset_id"] == server.datasets["harness/chores"]["id"]
    assert experiment["num_repetitions"] == 2
    assert experiment["end_time"]
    names = {each["inputs"]["task"]: id_ for id_, each in server.examples.items()}
    for trial, task in (("a__1", "acme/a"), ("a__2", "acme/a"), ("b__1", "acme/b")):
        assert server.root(trial)["reference_example_id"] == names[task]
        assert server.root(trial)["session_name"] == "chores/job-0b8a3c52"


def test_no_secret_of_the_environment_is_sent_and_the_key_only_as_the_key(sent: Pushed) -> None:
    assert all(request.headers["x-api-key"] == KEY for request in sent.server.requests if request.path != "/info")
    for request in sent.server.requests:
        assert SECRET.encode() not in request.body
        assert KEY.encode() not in request.body


def test_pull_prints_the_folders_of_the_trials_that_the_page_selects(sent: Pushed) -> None:
    sent.server.selected = {"a__1", "b__1", "b__2"}
    chosen = 'and(eq(feedback_key, "reward"), gte(feedback_score, 0.5))'
    argv = ["langsmith", "pull", sent.job, "--filter", chosen, "--project", "chores"]
    done = harness(*argv, env=settings(sent.server))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [str(sent.job / name) for name in ("a__1", "b__1", "b__2")]
    assert set(sent.server.filters) == {chosen}


@pytest.mark.slow
def test_pull_says_which_experiment_is_not_there(sent: Pushed) -> None:
    done = harness("langsmith", "pull", sent.job, env=settings(sent.server))
    assert done.code == 2
    assert done.err == f"error: LangSmith has no experiment 'job-0b8a3c52': harness langsmith push {sent.job}\n"


@pytest.mark.slow
def test_sampling_leaves_trials_out_and_hidden_content_stays_here(tmp_path: Path) -> None:
    job = traced_job(tmp_path)
    hide = {"LANGSMITH_HIDE_INPUTS": "true", "LANGSMITH_HIDE_OUTPUTS": "true"}
    with serving(LangSmithServer()) as server:
        server = cast(LangSmithServer, server)
        none = pushed(job, settings(server, LANGSMITH_TRACING_SAMPLING_RATE="0"))
        assert (none.sent, none.left_out, none.unsent, len(server.runs)) == (0, 4, 0, 0)
        assert pushed(job, settings(server, **hide)).sent == 4
        said = b"".join(request.body for request in server.requests)
        assert not [text for text in (b"Tidy up", b"notes.txt", b"Looking", b"it ended") if text in said]
        assert server.marks("a__1")["reward"] == 1


@pytest.mark.slow
def test_what_a_broken_server_missed_is_sent_later(tmp_path: Path) -> None:
    job = traced_job(tmp_path)
    with serving(LangSmithServer(fault="401")) as server:
        server = cast(LangSmithServer, server)
        done = harness("langsmith", "push", job, env=settings(server))
        assert done.code == 3
        assert done.out == "LangSmith: 0 traces sent, 4 not (401 Unauthorized); experiment job-0b8a3c52\n"
        server.fault = None
        assert harness("langsmith", "push", job, env=settings(server)).code == 0
        assert len({run["trace_id"] for run in server.runs.values()}) == 4


def test_the_hosted_service_wants_a_key(tmp_path: Path) -> None:
    done = harness("langsmith", "push", traced_job(tmp_path), env={"LANGSMITH_API_KEY": "", "LANGSMITH_ENDPOINT": ""})
    assert (done.code, done.out) == (2, "")
    assert "set LANGSMITH_API_KEY" in done.err
