"""JSON that every parser reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import strict_json

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@pytest.mark.case("E1")
@given(ANYTHING)
def test_whatever_is_cleaned_is_strict_and_reads_back_the_same(value: Any) -> None:
    cleaned, _ = strict_json.clean(value)
    text = strict_json.dumps(cleaned)
    text.encode()
    assert strict_json.loads(text) == cleaned == json.loads(text)


@pytest.mark.case("E1")
def test_what_became_null_is_named_by_its_path() -> None:
    cleaned, notes = strict_json.clean({"a": float("nan"), "b": [{"c": float("inf")}, "x"], "d": [1, float("-inf")]})
    assert cleaned == {"a": None, "b": [{"c": None}, "x"], "d": None}
    assert notes == ["a", "b[0].c", "d"]


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "", "{", "[" * 200_000, "'x'"])
def test_what_is_not_strict_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        strict_json.loads(text)


def test_surrogates_that_escapes_smuggle_in_are_replaced() -> None:
    assert strict_json.loads(r'"\ud800 \ud83d\ude00"') == "\ufffd \U0001f600"
