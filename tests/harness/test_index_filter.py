"""The filter language: what it reads, and the one line that it says about what it cannot."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.errors import UsageError
from harness.store.index.filter import parse_filter

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def read(text: str) -> list[tuple[str, str, tuple[object, ...]]]:
    return [(term.field.column, term.op, term.values) for term in parse_filter(text, now=NOW).terms]


def test_a_term_is_a_name_an_operator_and_a_value() -> None:
    assert read("outcome=scored reward>=0.5") == [("outcome", "=", ("scored",)), ("reward", ">=", (0.5,))]


def test_spaces_around_the_operator_do_not_matter() -> None:
    assert read("reward >= 0.5") == read("reward>=0.5")


def test_commas_separate_alternatives_and_quotes_hold_spaces_and_quotes() -> None:
    assert read("category=a,b") == [("category", "=", ("a", "b"))]
    assert read(r'command~"rm -rf","say \"x, y\""') == [("command", "~", ("rm -rf", 'say "x, y"'))]


def test_none_is_the_unknown() -> None:
    assert read("reward=none model!=none") == [("reward", "=", (None,)), ("model", "!=", (None,))]


def test_times_are_days_moments_or_so_long_ago() -> None:
    assert read("since=2026-11-01") == [("started_at", ">=", ("2026-11-01T00:00:00.000000Z",))]
    assert read("until=2026-11-01T13:30+01:00") == [("started_at", "<", ("2026-11-01T12:30:00.000000Z",))]
    assert read("since=7d") == [("started_at", ">=", ("2026-11-23T12:00:00.000000Z",))]


def test_parts_of_the_reward_and_numbers_of_the_behaviour_have_names() -> None:
    assert read("reward.style>0 loops=0") == [("style", ">", (0.0,)), ("loops", "=", (0.0,))]


def test_by_says_what_to_count_by() -> None:
    assert parse_filter("outcome=scored by:task").by == "task"
    assert parse_filter("").by is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("catgory=memory", "there is no column 'catgory'; the nearest is 'category'"),
        ("outcome=score", "outcome is never 'score'; the nearest is 'scored' (any of scored, agent_failed"),
        ("reward>=high", "reward: 'high' is not a number"),
        ("reward=nan", "reward: 'nan' is not a number"),
        ("reward>none", "the unknown is neither less nor more"),
        ("task>a", "> compares one number or time, and task is text"),
        ("reward~1", "~ looks into text, and reward is a number"),
        ("since=yesterday", "since: 'yesterday' is not a time; write 2026-11-01"),
        ("since>2026-11-01", "write since=TIME, or compare started_at"),
        ("superseded=maybe", "superseded is yes or no"),
        ("by:tsk", "by:tsk is not possible; the nearest is 'task'"),
        ("by:task by:agent", "a filter counts by one column"),
        ("to:task", "count by a column with by:NAME"),
        ("command~rm -rf", "cannot read '-rf' in the filter"),
        ("memory", "cannot read 'memory' in the filter; a term is NAME=VALUE"),
        ("task=", "cannot read 'task='"),
        ('task="open', "cannot read"),
        ("task=a,", "cannot read"),
    ],
)
def test_what_cannot_be_is_said_in_a_line_with_what_to_write(text: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_filter(text)
    assert line in str(caught.value) and "\n" not in str(caught.value)
