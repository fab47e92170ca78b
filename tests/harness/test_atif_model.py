"""What is ATIF and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.atif.model import VERSIONS
from harness.atif.reader import TrajectoryInvalid, findings, load_trajectory, parse_trajectory, usage_of

RECORDED = Path(__file__).parent / "data" / "harbor-0.26-trajectory.json"


def document(*steps: dict[str, Any], version: str = "ATIF-v1.7", **fields: Any) -> str:
    """A document with these steps, numbered."""
    numbered = [{"step_id": number, "message": "", **step} for number, step in enumerate(steps, 1)]
    return json.dumps({"schema_version": version, "agent": {"name": "a", "version": "1"}, "steps": numbered, **fields})


def calling(*ids: str, results: tuple[str | None, ...] = ()) -> dict[str, Any]:
    """An agent's step with these calls, and results for those."""
    return {
        "source": "agent",
        "tool_calls": [{"tool_call_id": each, "function_name": "f", "arguments": {}} for each in ids],
        "observation": {"results": [{"source_call_id": each, "content": f"of {each}"} for each in results]},
    }


def spent(prompt: int | None, completion: int | None, cached: int | None = None, **fields: Any) -> dict[str, Any]:
    """An agent's step that spent these tokens."""
    metrics = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}
    return {"source": "agent", "metrics": metrics, **fields}


def test_what_harbor_recorded_is_read_with_its_token_ids_and_totals() -> None:
    trajectory = load_trajectory(RECORDED)
    assert [step.step_id for step in trajectory.steps] == [1, 2, 3, 4]
    metrics = trajectory.steps[1].metrics
    assert metrics is not None and metrics.completion_token_ids and metrics.logprobs
    assert usage_of(trajectory).prompt_tokens == 10959
    assert findings(trajectory) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_up_to_1_8_is_read(version: str) -> None:
    assert parse_trajectory(document({"source": "user"}, version=version)).schema_version == version


def test_an_unknown_version_is_named_with_the_known_ones() -> None:
    with pytest.raises(TrajectoryInvalid, match=r"unknown version 'ATIF-v2\.0' \(known: ATIF-v1\.0 to ATIF-v1\.8\)"):
        parse_trajectory(document({"source": "user"}, version="ATIF-v2.0"))


def test_step_ids_run_from_one_without_gaps() -> None:
    with pytest.raises(TrajectoryInvalid, match="expected 2, found 3"):
        parse_trajectory(document({"source": "user"}, {"source": "user", "step_id": 3}))


@pytest.mark.parametrize("field", ["model_name", "reasoning_effort", "reasoning_content"])
def test_what_belongs_to_agents_is_refused_on_other_steps(field: str) -> None:
    with pytest.raises(TrajectoryInvalid, match=f"step 1: '{field}' is not allowed on a step of source 'user'"):
        parse_trajectory(document({"source": "user", field: "x"}))


def test_a_step_without_a_model_call_has_no_metrics() -> None:
    with pytest.raises(TrajectoryInvalid, match="'metrics' is not allowed on a step without a model call"):
        parse_trajectory(document(spent(1, 1, llm_call_count=0)))


@pytest.mark.case("E2")
def test_two_calls_with_one_id_are_refused_by_step_and_id() -> None:
    with pytest.raises(TrajectoryInvalid, match="step 2: tool_call_id 'x' is used by 2 calls"):
        parse_trajectory(document({"source": "user"}, calling("x", "x", results=("x", "x"))))


@pytest.mark.case("E3")
def test_a_result_of_a_call_that_is_not_in_its_step_is_refused() -> None:
    with pytest.raises(TrajectoryInvalid, match="step 2: source_call_id 'a' is not a call of this step"):
        parse_trajectory(document(calling("a"), calling("b", results=("a",))))


@pytest.mark.case("E3")
def test_results_without_any_call_are_kept_on_a_step_of_their_own() -> None:
    trajectory = parse_trajectory(document({**calling(results=(None,)), "tool_calls": None}))
    observation = trajectory.steps[0].observation
    assert observation is not None and observation.results[0].content == "of None"


@pytest.mark.case("E4")
def test_results_pair_by_id_in_whatever_order_they_came() -> None:
    step = parse_trajectory(document(calling("a", "b", results=("b", "a")))).steps[0]
    assert step.observation is not None
    assert {each.source_call_id: each.content for each in step.observation.results} == {"a": "of a", "b": "of b"}


@pytest.mark.case("E5")
def test_copied_context_adds_nothing_to_the_totals() -> None:
    trajectory = parse_trajectory(document(spent(10, 1), spent(20, 1, is_copied_context=True), spent(30, 1)))
    assert usage_of(trajectory).prompt_tokens == 40
    assert usage_of(trajectory).calls == 2


@pytest.mark.case("E6")
def test_totals_that_contradict_the_steps_are_findings() -> None:
    text = document(
        *[{"source": "user"}] * 3, spent(10, 5), final_metrics={"total_steps": 3, "total_prompt_tokens": 99}
    )
    assert findings(parse_trajectory(text)) == [
        "final_metrics.total_steps is 3, the steps give 4",
        "final_metrics.total_prompt_tokens is 99, the steps give 10",
    ]


@pytest.mark.case("C12")
def test_a_call_that_told_no_tokens_makes_the_totals_partial_and_never_zero() -> None:
    usage = usage_of(parse_trajectory(document(spent(100, 10, 40), spent(None, None), spent(50, 5))))
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (150, 40, 15)
    assert usage.incomplete
    assert usage_of(parse_trajectory(document(spent(None, None)))).prompt_tokens is None


@pytest.mark.case("C7")
def test_calls_without_a_price_are_counted_and_the_cost_is_unknown() -> None:
    usage = usage_of(parse_trajectory(document(spent(1, 1), spent(1, 1))))
    assert (usage.cost_usd, usage.unpriced_calls) == (None, 2)


@pytest.mark.case("E1")
@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_document_with_a_constant_that_json_lacks_is_refused(constant: str) -> None:
    text = document({"source": "user", "extra": {"x": 0.5}}).replace("0.5", constant)
    with pytest.raises(TrajectoryInvalid, match=f"not strict JSON: {constant} is not JSON"):
        parse_trajectory(text)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "null", '{"schema_version": 7}', b"\xff\xfe"])
def test_anything_else_is_refused_in_one_line(text: str | bytes) -> None:
    with pytest.raises(TrajectoryInvalid) as refused:
        parse_trajectory(text, where="t.json")
    assert str(refused.value).startswith("t.json: ")
    assert "\n" not in str(refused.value)


def test_an_unknown_field_is_refused_by_its_place() -> None:
    with pytest.raises(TrajectoryInvalid, match=r"steps\.0\.colour"):
        parse_trajectory(document({"source": "user", "colour": "red"}))


def test_a_subagent_was_referred_to_by_its_session_before_version_1_7_only() -> None:
    step = calling("a", results=("a",))
    step["observation"]["results"][0]["subagent_trajectory_ref"] = [{"session_id": "s"}]
    parse_trajectory(document(step, version="ATIF-v1.6"))
    with pytest.raises(TrajectoryInvalid, match="needs trajectory_id or trajectory_path"):
        parse_trajectory(document(step, version="ATIF-v1.7"))


def test_pictures_and_sounds_are_parts_with_a_source_of_their_kind() -> None:
    picture = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    sound = {"type": "audio", "source": {"media_type": "audio/mp3", "path": "a.mp3", "duration_sec": 1.5}}
    step = parse_trajectory(document({"source": "user", "message": [picture, sound]}, version="ATIF-v1.8")).steps[0]
    assert not isinstance(step.message, str)
    assert step.message[1].source is not None and step.message[1].source.media_type == "audio/mpeg"
    with pytest.raises(TrajectoryInvalid, match="'image/png' is not an audio"):
        parse_trajectory(document({"source": "user", "message": [{**picture, "type": "audio"}]}))
