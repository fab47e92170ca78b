"""The reward grammar: one finite number within the range, or no reward and the reason."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError, RewardInvalid, RewardMissing, VerifierUnavailable
from harness.trial.reward import parse_reward


@pytest.mark.parametrize(("text", "value"), [(b"1.0\n", 1.0), (b"1", 1.0), (b" 0.5 \r\n", 0.5), (b"0", 0.0)])
def test_a_number_in_the_range_is_a_reward(text: bytes, value: float) -> None:
    reward = parse_reward({"reward.txt": text})
    assert (reward.value, reward.source, reward.headline) == (value, "reward.txt", "reward")


@pytest.mark.case("B4")
@pytest.mark.parametrize(
    "text", [b"2", b"-1", b"10", b"1.5", b"1abc", b"1 1", b"nan", b"inf", b"1_0", b"0x1", b"", b"  "]
)
def test_anything_else_in_reward_txt_is_no_reward(text: bytes) -> None:
    with pytest.raises(RewardInvalid):
        parse_reward({"reward.txt": text})


@pytest.mark.case("B4")
def test_a_task_may_declare_a_wider_range() -> None:
    assert parse_reward({"reward.txt": b"-1"}, (-1.0, 1.0)).value == -1.0


@pytest.mark.case("B3")
@pytest.mark.parametrize(
    "document",
    [b'{"reward": 1', b"[1]", b'"1"', b"null", b"", b"   ", b"\xff\xfe", b"9" * 5_000_000, b"{}", b'{"a": {"b": 1}}'],
)
def test_a_broken_reward_json_is_no_reward(document: bytes) -> None:
    with pytest.raises(RewardInvalid):
        parse_reward({"reward.json": document})


@pytest.mark.parametrize("value", ["true", '"1"', "null", "[1]", "NaN", "1e999", "1" + "0" * 400])
def test_every_value_of_reward_json_is_a_finite_number(value: str) -> None:
    with pytest.raises(RewardInvalid):
        parse_reward({"reward.json": f'{{"reward": {value}}}'.encode()})


def test_without_a_headline_the_mean_of_the_parts_is_the_reward_and_says_so() -> None:
    reward = parse_reward({"reward.json": b'{"style": 0.5, "tests": 1}'})
    assert (reward.value, reward.headline, reward.parts) == (0.75, "mean", {"style": 0.5, "tests": 1.0})


@pytest.mark.case("B2")
def test_reward_json_takes_precedence_and_a_disagreement_is_flagged() -> None:
    reward = parse_reward({"reward.json": b'{"reward": 0}', "reward.txt": b"1"})
    assert (reward.value, reward.source, reward.conflict) == (0.0, "reward.json", True)
    assert not parse_reward({"reward.json": b'{"reward": 1}', "reward.txt": b"1.0"}).conflict


@pytest.mark.case("B1")
def test_no_file_is_a_missing_reward() -> None:
    with pytest.raises(RewardMissing):
        parse_reward({})


@pytest.mark.case("B8")
def test_a_verifier_that_could_not_grade_voids_whatever_reward_lies_there() -> None:
    with pytest.raises(VerifierUnavailable, match="bootstrap"):
        parse_reward({"status.json": b'{"status":"infra","reason":"bootstrap"}', "reward.txt": b"0"})


def test_a_key_that_utf8_cannot_hold_is_replaced_and_costs_nothing_else() -> None:
    reward = parse_reward({"reward.json": b'{"reward": 1, "\\ud800": 0.5}'})
    assert (reward.value, dict(reward.parts)) == (1.0, {"reward": 1.0, "\ufffd": 0.5})


_names = st.sampled_from(["reward.txt", "reward.json", "status.json"])


@given(st.dictionaries(_names, st.one_of(st.binary(max_size=200), st.text(max_size=50).map(str.encode))))
def test_whatever_the_files_hold_the_answer_is_a_finite_number_in_the_range_or_a_typed_error(
    files: dict[str, bytes],
) -> None:
    try:
        reward = parse_reward(files)
    except HarnessError:
        return
    assert math.isfinite(reward.value)
    assert 0 <= reward.value <= 1


@given(st.floats(allow_nan=False, min_value=0, max_value=1))
def test_every_number_in_the_range_is_read_back_exactly(value: float) -> None:
    assert parse_reward({"reward.txt": repr(value).encode()}).value == value
