"""The trajectory on disk: whole at every moment, strict, redacted, and cheap however long it grows."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.atif.model import Metrics, ToolCall
from harness.atif.reader import findings, load_trajectory, parse_trajectory
from harness.atif.writer import INTERRUPTED, TrajectoryWriter
from harness.redaction import Redactor


def writing(folder: Path, redact: Callable[[str], str] | None = None) -> TrajectoryWriter:
    """A new trajectory in a folder."""
    return TrajectoryWriter(
        folder / "agent" / "trajectory.json",
        session_id="job/trial",
        agent_name="tester",
        agent_version="1",
        model_name="m",
        redact=redact,
    )


def bash(call_id: str, command: str = "ls") -> ToolCall:
    return ToolCall(tool_call_id=call_id, function_name="bash", arguments={"command": command})


def strictly(path: Path) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(name)

    return json.loads(path.read_bytes(), parse_constant=refuse)


def test_the_document_is_valid_after_every_single_change(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    assert not writer.path.exists(), "ATIF has no document without steps"
    writer.system("be good")
    assert len(load_trajectory(writer.path).steps) == 1
    writer.user("do it")
    assert len(load_trajectory(writer.path).steps) == 2
    writer.agent("I will", tool_calls=[bash("a"), bash("b")], metrics=Metrics(prompt_tokens=10, completion_tokens=2))
    assert load_trajectory(writer.path).steps[2].observation is None
    writer.result("b", "second", extra={"exit_code": 0})
    writer.result("a", "first")
    writer.agent("done", metrics=Metrics(prompt_tokens=20, completion_tokens=1))
    writer.close()
    trajectory = load_trajectory(writer.path)
    assert [step.source for step in trajectory.steps] == ["system", "user", "agent", "agent"]
    observation = trajectory.steps[2].observation
    assert observation is not None and [each.source_call_id for each in observation.results] == ["b", "a"]
    assert findings(trajectory) == []
    assert (writer.steps, writer.tool_calls, writer.usage.prompt_tokens) == (4, 2, 30)


GOLDEN = Path(__file__).parent / "data" / "atif-v1.7-written.json"
"""What was written once, and accepted by Harbor 0.26's own reader; it stays readable, and is still what is written."""


def test_what_is_written_is_what_harbor_has_accepted(tmp_path: Path) -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    writer = TrajectoryWriter(
        tmp_path / "trajectory.json",
        session_id="job/trial",
        agent_name="tester",
        agent_version="1.0",
        model_name="m",
        now=lambda: moment,
    )
    writer.describe_tools([{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}])
    writer.system("be good")
    writer.user("do it")
    metrics = Metrics(
        prompt_tokens=10,
        cached_tokens=4,
        completion_tokens=2,
        cost_usd=0.25,
        prompt_token_ids=[1, 2, 3],
        completion_token_ids=[7, 8],
        logprobs=[-0.5, -1.25],
        extra={"finish_reason": "tool_calls"},
    )
    writer.agent(
        "now", reasoning="hm", tool_calls=[bash("a"), bash("b")], metrics=metrics, model_name="m-1", extra={"turn": 1}
    )
    writer.result("b", "second", extra={"exit_code": 0, "timed_out": False})
    writer.agent("", llm_calls=0)
    writer.result(None, "of no call")
    writer.close()
    assert writer.path.read_text() == GOLDEN.read_text()
    assert findings(load_trajectory(GOLDEN)) == []


def test_closing_leaves_one_file_and_may_be_repeated(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    writer.user("x")
    writer.close()
    writer.close()
    assert [each.name for each in writer.path.parent.iterdir()] == ["trajectory.json"]
    with pytest.raises(ValueError, match="closed"):
        writer.user("y")


def test_a_run_cut_in_the_middle_of_its_calls_says_so_of_each(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    writer.agent("", tool_calls=[bash("a"), bash("b")])
    writer.result("a", "done")
    writer.close()
    observation = load_trajectory(writer.path).steps[0].observation
    assert observation is not None
    assert [(each.content, each.extra) for each in observation.results] == [
        ("done", None),
        (INTERRUPTED, {"interrupted": True}),
    ]


def test_a_result_needs_a_call_of_the_latest_step_and_comes_once(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    writer.agent("", tool_calls=[bash("a")])
    writer.result("a", "x")
    with pytest.raises(ValueError, match="already has its result"):
        writer.result("a", "y")
    with pytest.raises(ValueError, match="not a call of this step"):
        writer.result("b", "y")
    assert len(load_trajectory(writer.path).steps) == 1


@pytest.mark.case("E1")
def test_numbers_that_are_not_finite_become_null_with_a_note(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    nan, inf = float("nan"), float("inf")
    writer.agent("", metrics=Metrics(cost_usd=nan, logprobs=[-0.5, -inf], extra={"x": [inf, "y"]}))
    writer.close()
    (step,) = strictly(writer.path)["steps"]
    assert step["extra"] == {"not_finite": ["metrics.cost_usd", "metrics.logprobs", "metrics.extra.x[0]"]}
    assert step["metrics"] == {"extra": {"x": [None, "y"]}}
    assert writer.usage.unpriced_calls == 1


@pytest.mark.case("E1")
def test_lone_surrogates_are_replaced_and_pairs_are_joined(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    writer.user("a\ud800b \ud83d\ude00", extra={"\udfff": 1})
    writer.close()
    (step,) = strictly(writer.path)["steps"]
    assert step["message"] == "a\ufffdb \U0001f600"
    assert step["extra"] == {"\ufffd": 1}


@pytest.mark.case("E6")
def test_the_totals_always_agree_with_the_steps(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    for tokens in (5, None, 7):
        writer.agent("", metrics=Metrics(prompt_tokens=tokens, completion_tokens=tokens, cost_usd=tokens))
        assert findings(load_trajectory(writer.path)) == []
    totals = load_trajectory(writer.path).final_metrics
    assert totals is not None and totals.extra is not None
    assert (totals.total_prompt_tokens, totals.total_steps, totals.extra["incomplete"]) == (12, 3, True)
    assert (totals.total_cost_usd, totals.extra["unpriced_calls"]) == (12, 1)
    writer.close()


def test_a_step_without_a_model_call_counts_as_no_call(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    writer.agent("", tool_calls=[bash("a")], llm_calls=0)
    writer.close()
    assert (writer.usage.calls, writer.usage.prompt_tokens, writer.usage.incomplete) == (0, None, False)


@pytest.mark.case("H4")
def test_secrets_reach_no_byte_of_the_document(tmp_path: Path) -> None:
    secret = 'canary-"7/\\ x'
    writer = writing(tmp_path, Redactor([secret]))
    writer.describe_tools([{"type": "function", "function": {"name": secret}}])
    writer.user(f"use {secret}")
    call = ToolCall(
        tool_call_id=f"c-{secret}", function_name="bash", arguments={"command": f"echo {secret}", secret: 1}
    )
    writer.agent(json.dumps({"key": secret}), reasoning=secret, tool_calls=[call], extra={"raw": json.dumps(secret)})
    writer.result(f"c-{secret}", f"KEY={secret}", extra={"note": [secret]})
    writer.close()
    text = writer.path.read_text()
    assert "canary" not in text
    assert load_trajectory(writer.path).steps[1].observation is not None


@settings(max_examples=40)
@given(
    messages=st.lists(
        st.text(st.characters(codec=None)) | st.dictionaries(st.text(), st.floats() | st.text() | st.none()), max_size=8
    )
)
def test_whatever_is_written_reads_back_as_valid(
    messages: list[str | dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    writer = writing(tmp_path_factory.mktemp("any"))
    writer.user("first")
    for message in messages:
        if isinstance(message, str):
            writer.user(message)
        else:
            writer.agent("", tool_calls=[ToolCall(tool_call_id="c", function_name="f", arguments={})], extra=message)
            writer.result("c", "r", extra=message)
        assert len(load_trajectory(writer.path).steps) == writer.steps
    writer.close()


def _write_until_killed(folder: Path) -> None:
    writer = writing(folder)
    for number in range(100_000):
        writer.agent("m" * random.randrange(20_000), tool_calls=[bash("a")])
        writer.result("a", f"{number}")


@pytest.mark.slow
@pytest.mark.case("D4")
def test_a_process_killed_at_any_instant_leaves_a_valid_document(tmp_path: Path) -> None:
    chance = random.Random(7)
    lengths = []
    for attempt in range(25):
        folder = tmp_path / str(attempt % 5)  # later attempts find what earlier ones left
        process = multiprocessing.get_context("fork").Process(target=_write_until_killed, args=(folder,))
        process.start()
        document = folder / "agent" / "trajectory.json"
        while not document.exists():
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.15))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        process.close()
        trajectory = load_trajectory(document)
        assert findings(trajectory) == []
        lengths.append(len(trajectory.steps))
    assert max(lengths) > 10


def test_a_reader_beside_the_writer_always_sees_a_whole_document(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    writer.user("x")
    for number in range(50):
        before = writer.path.read_bytes()
        with writer.path.open("rb") as reader:
            writer.agent("y" * 5000, tool_calls=[bash("a")])
            assert reader.read() == before, "what was opened stays as it was"
        writer.result("a", str(number))
    assert len(parse_trajectory(before).steps) == 50
    writer.close()


def test_a_file_system_without_hard_links_serves_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "link", refuse)
    writer = writing(tmp_path)
    for number in range(5):
        writer.user(str(number))
        assert len(load_trajectory(writer.path).steps) == number + 1
    writer.close()
    assert [each.name for each in writer.path.parent.iterdir()] == ["trajectory.json"]


def test_a_full_disk_leaves_the_last_whole_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = writing(tmp_path)
    writer.user("kept")
    real = os.pwrite

    def half(handle: int, data: Any, offset: int) -> int:
        real(handle, bytes(data)[: len(data) // 2], offset)
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OSError, match="no space left"):
        writer.user("lost")
    assert [step.message for step in load_trajectory(writer.path).steps] == ["kept"]
    monkeypatch.undo()


@pytest.mark.slow
def test_a_step_costs_the_same_however_long_the_trajectory_is(tmp_path: Path) -> None:
    writer = writing(tmp_path)
    costs = []
    for _ in range(1000):
        started = time.process_time()
        writer.agent("m" * 500, tool_calls=[bash("a")], metrics=Metrics(prompt_tokens=1, completion_tokens=1))
        writer.result("a", "o" * 3000)
        costs.append(time.process_time() - started)
    writer.close()
    assert writer.path.stat().st_size > 3_000_000
    assert sum(costs[-100:]) < 3 * sum(costs[100:200])
