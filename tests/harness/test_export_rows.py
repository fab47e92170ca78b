"""What rows say: prefixes, masks, groups, rewards, versions, and why an attempt is not trained on."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

import pytest
from rollouts import call, exported, job_of

from harness.errors import UsageError
from harness.export.read import read_samples
from harness.export.rl import count_rl, export_rl
from harness.export.schema import RLSample
from harness.export.tokens import branch
from harness.failures import Outcome


def shape(row: RLSample) -> list[tuple[str, int]]:
    return [(span.kind, span.end - span.start) for span in row.spans]


@pytest.mark.case("E7")
def test_a_prompt_that_repeats_what_was_sampled_extends_the_row(tmp_path: Path) -> None:
    (row,), stats = exported(tmp_path, [[call([1, 2], [7, 8]), call([1, 2, 7, 8, 3], [9])]])
    assert list(row.token_ids) == [1, 2, 7, 8, 3, 9]
    assert list(row.loss_mask) == [0, 0, 1, 1, 0, 1]
    assert list(row.chunk_ids) == [-1, -1, 0, 0, -1, 1]
    assert (row.n_branches, row.rollout_weight) == (1, 1.0)
    assert (stats.calls["extended"], stats.calls["forked"]) == (1, 0)


@pytest.mark.case("E7")
def test_a_prompt_that_spells_it_differently_starts_a_row_and_is_counted(tmp_path: Path) -> None:
    rows, stats = exported(tmp_path, [[call([1, 2], [7, 8]), call([1, 2, 9, 3], [4])]])
    assert [list(row.token_ids) for row in rows] == [[1, 2, 7, 8], [1, 2, 9, 3, 4]]
    assert [list(row.loss_mask) for row in rows] == [[0, 0, 1, 1], [0, 0, 0, 0, 1]]
    assert [row.rollout_weight for row in rows] == [0.5, 0.5]
    assert (stats.calls["forked"], stats.calls["fork:respelled"]) == (1, 1)


def test_a_response_respelled_in_the_middle_is_trained_in_its_own_row_only(tmp_path: Path) -> None:
    rows, _ = exported(tmp_path, [[call([1], [7, 8, 9]), call([1, 7, 8, 5, 5], [4])]])
    assert shape(rows[0]) == [("context", 1), ("sampled", 3)]
    assert shape(rows[1]) == [("context", 1), ("trained_elsewhere", 2), ("context", 2), ("sampled", 1)]
    assert list(rows[1].loss_mask) == [0, 0, 0, 0, 0, 1]


def test_realigning_masks_a_short_response_instead_of_starting_a_row(tmp_path: Path) -> None:
    calls = [call([1], [7, 8, 9]), call([1, 7, 8, 5, 5], [4])]
    (row,), stats = exported(tmp_path, [calls], realign_below=4)
    assert shape(row) == [("context", 1), ("realigned", 4), ("sampled", 1)]
    assert (stats.calls["realigned"], stats.calls["realigned_tokens"]) == (1, 3)


def test_the_same_prompt_sampled_twice_is_two_rows() -> None:
    found = branch([call([1], [7]), call([1], [8])], realign_below=99)
    assert [list(each.tokens) for each in found.branches] == [[1, 7], [1, 8]]
    assert found.counts["fork:resampled"] == 1


def test_compaction_and_sub_agents_are_told_apart() -> None:
    calls = [
        call([1, 2, 3], [4]),
        call([50], [51], session="sub"),
        call([1, 2, 3, 4, 5], [6]),
        call([50, 51, 52], [53], session="sub"),
        call([1, 9], [7]),
    ]
    found = branch(calls)
    assert [each.session for each in found.branches] == ["main", "sub", "main"]
    assert (found.counts["extended"], found.counts["fork:session"], found.counts["fork:shortened"]) == (2, 1, 1)


def test_a_cut_answer_that_goes_on_stays_one_row_of_two_chunks(tmp_path: Path) -> None:
    (row,), _ = exported(tmp_path, [[call([1], [7, 8], finish_reason="length"), call([1, 7, 8], [9])]])
    assert list(row.loss_mask) == [0, 1, 1, 1]
    assert list(row.chunk_ids) == [-1, 0, 0, 1]
    assert [span.finish_reason for span in row.spans] == [None, "length", None]


@pytest.mark.case("E14")
def test_tool_results_are_never_in_the_loss(tmp_path: Path) -> None:
    first = call([1, 2, 3], [4, 5, 6, 7])
    second = call([1, 2, 3, 4, 5, 6, 7, 20, 21, 22, 23, 24], [8, 9])
    (row,), _ = exported(tmp_path, [[first, second]])
    assert (len(row.token_ids), sum(row.loss_mask)) == (14, 6)
    assert [number for number, mask in enumerate(row.loss_mask) if mask] == [3, 4, 5, 6, 12, 13]


@pytest.mark.case("E9")
@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"logprobs": [-1.0]}, "logprob_count_differs"),
        ({"logprobs": [-1.0, nan]}, "logprob_not_finite"),
        ({"logprobs": [-1.0, float("-inf")]}, "logprob_not_finite"),
        ({"logprobs": [-1.0, -9999.0]}, "logprob_not_finite"),
        ({"logprobs": [-1.0, 0.5]}, "logprob_positive"),
        ({"logprobs": None}, "no_logprobs"),
    ],
)
def test_a_call_with_unusable_logprobs_is_masked_and_counted(
    tmp_path: Path, fields: dict[str, Any], fault: str
) -> None:
    calls = [call([1], [7, 8], **fields), call([1, 7, 8, 2], [9])]
    (row,), stats = exported(tmp_path, [calls])
    assert list(row.token_ids) == [1, 7, 8, 2, 9]
    assert list(row.loss_mask) == [0, 0, 0, 0, 1]
    assert row.spans[1].kind == "invalid"
    assert stats.faults == {fault: 1}
    (masked,), _ = exported(tmp_path / "alone", [calls[:1], [call([1], [2])]])[0][:1], None
    assert (masked.trainable, masked.untrainable_reason) == (False, fault)


@pytest.mark.case("E11")
def test_attempts_of_one_task_are_one_group_whatever_they_are_called(tmp_path: Path) -> None:
    rows, stats = exported(tmp_path, [[call([1], [number])] for number in range(4)])
    assert len({row.group_id for row in rows}) == 1
    assert [(row.group_size, row.group_missing) for row in rows] == [(4, 0)] * 4
    assert stats.groups == {"complete": 1, "without_signal": 1}
    _, alone = exported(tmp_path / "one", [[call([1], [2])]])
    assert alone.groups["single"] == 1


def test_an_infrastructure_failure_keeps_its_place_in_the_group_and_is_masked(tmp_path: Path) -> None:
    attempts = [[call([1], [number + 2])] for number in range(3)]
    rows, stats = exported(tmp_path, attempts, ends=[1.0, Outcome.INFRA_ERROR, 0.0])
    assert [row.reward for row in rows] == [1.0, None, 0.0]
    assert [row.trainable for row in rows] == [True, False, True]
    failed = rows[1]
    assert failed.untrainable_reason == "infra_error:sandbox_unavailable"
    assert (failed.failure_category, failed.failure_layer) == ("infra_sandbox", "sandbox")
    assert (list(failed.token_ids), sum(failed.loss_mask), failed.spans[1].kind) == ([1, 3], 0, "masked")
    assert (stats.kept, dict(stats.masked)) == (2, {"infra_error:sandbox_unavailable": 1})
    assert stats.groups == {"incomplete": 1}


def test_an_attempt_that_left_no_tokens_keeps_its_place_too(tmp_path: Path) -> None:
    rows, stats = exported(tmp_path, [[call([1], [2])], []], ends=[1.0, Outcome.CANCELLED])
    assert [(len(row.token_ids), row.untrainable_reason) for row in rows] == [(2, None), (0, "cancelled")]
    assert stats.masked == {"cancelled": 1}


def test_an_agents_own_failure_before_any_verdict_counts_as_zero(tmp_path: Path) -> None:
    rows, _ = exported(tmp_path, [[call([1], [2])], [call([1], [3])]], ends=[1.0, Outcome.AGENT_FAILED])
    assert [(row.reward, row.trainable) for row in rows] == [(1.0, True), (0.0, True)]


def test_attempts_that_were_planned_and_left_nothing_are_dropped_and_counted(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", [[call([1], [2])], [call([1], [3])]])
    (job / "config.json").write_text('{"n_attempts": 3}')
    (job / "result.json").write_text('{"n_total_trials": 3}')
    (job / "t0000__2" / "result.json").write_text("{")
    stats = count_rl([job])
    assert (stats.attempts, stats.kept, dict(stats.dropped)) == (3, 1, {"record_damaged": 1, "never_finished": 1})
    assert stats.groups == {"incomplete": 1}


def test_calls_that_the_record_counts_and_no_file_holds_are_missing(tmp_path: Path) -> None:
    from harness.records import AgentUsage, TrialResult

    job = job_of(tmp_path / "job", [[call([1], [2])]])
    path = job / "t0000__1" / "result.json"
    record = TrialResult.model_validate_json(path.read_text())
    record.agent_result = AgentUsage(n_calls=3)
    path.write_text(record.model_dump_json())
    assert count_rl([job]).missing_turns == 2


def test_versions_are_told_for_every_sampled_token(tmp_path: Path) -> None:
    calls = [
        call([1], [7, 8], policy_version="3"),
        call([1, 7, 8, 2], [9, 9, 9], version_runs=(("3", 1), ("4", 2))),
    ]
    (row,), _ = exported(tmp_path, [calls])
    assert row.policy_versions == ("3", "4")
    assert list(row.policy_index) == [-1, 0, 0, -1, 0, 1, 1]


def test_sampling_parameters_are_those_on_which_all_calls_agree(tmp_path: Path) -> None:
    sampling = {"temperature": 0.7, "top_p": 0.9, "logprobs_mode": "raw"}
    calls = [call([1], [7], sampling=sampling), call([1, 7], [8], sampling={**sampling, "top_p": 1.0})]
    (row,), _ = exported(tmp_path, [calls])
    assert (row.temperature, row.top_p, row.logprobs_mode) == (pytest.approx(0.7), None, "raw")
    assert [span.temperature for span in row.spans[1:]] == [pytest.approx(0.7)] * 2


@pytest.mark.case("E1")
def test_json_lines_hold_the_same_rows(tmp_path: Path) -> None:
    attempts = [[call([1], [7, 8], logprobs=[-1.0, nan]), call([1, 7, 8, 2], [9])], [call([5], [6])]]
    job = job_of(tmp_path / "job", attempts)
    export_rl([job], tmp_path / "a")
    export_rl([job], tmp_path / "b", file_format="jsonl")
    one, other = list(read_samples(tmp_path / "a")), list(read_samples(tmp_path / "b"))
    assert len(one) == 2 and [repr(row) for row in one] == [repr(row) for row in other]
    assert "NaN" not in (tmp_path / "b" / "part-00000.jsonl").read_text()


def test_retried_executions_are_no_attempts(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", [[call([1], [2])]])
    retried = job / "t0000__1r1"
    retried.mkdir()
    text = (job / "t0000__1" / "result.json").read_text()
    (retried / "result.json").write_text(text.replace('"retry":0', '"retry":1').replace("t0000__1", "t0000__1r1"))
    (retried / "agent").mkdir()
    (job / "t0000__1" / "agent" / "rollout.bin").rename(retried / "agent" / "rollout.bin")
    stats = count_rl([job])
    assert (stats.attempts, stats.kept, stats.superseded) == (1, 1, 1)


def test_nothing_to_train_on_writes_nothing_and_says_why(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", [[call([1], [2])]], ends=[Outcome.INFRA_ERROR])
    with pytest.raises(UsageError, match="no attempt of 1 can be trained on: 1 infra_error:sandbox_unavailable"):
        export_rl([job], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job"]


def test_an_export_replaces_an_export_and_nothing_else(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", [[call([1], [2])]])
    export_rl([job], tmp_path / "out")
    (tmp_path / "out" / "stray.txt").write_text("x")
    export_rl([job], tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["export.json", "part-00000.parquet"]
    with pytest.raises(UsageError, match="holds something that is no export"):
        export_rl([job], job)
    assert (job / "t0000__1" / "result.json").exists()
