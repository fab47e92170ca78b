"""Errors and the failure table agree: every error has its row, its place in the drawn tree, and survives pickling."""

from __future__ import annotations

import pickle
from types import ModuleType

import pytest

from backends import errors as sandbox_errors
from harness import errors as harness_errors
from harness.failures import (
    BY_ERROR,
    BY_REPETITION,
    BY_STOP,
    WRONG_ANSWER,
    AgentStop,
    FailureCategory,
    Outcome,
    verdict_of,
)

NEVER_ENDS_A_TRIAL = {harness_errors.UsageError}
ROOTS = {harness_errors.HarnessError}


def _errors_of(module: ModuleType) -> list[type[Exception]]:
    return [
        thing
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Exception) and thing.__module__ == module.__name__
    ]


ERRORS = [*_errors_of(sandbox_errors), *_errors_of(harness_errors)]
LEAVES = [error for error in ERRORS if not error.__subclasses__()]


@pytest.mark.parametrize("error", [leaf for leaf in LEAVES if leaf not in NEVER_ENDS_A_TRIAL])
def test_every_leaf_of_the_error_trees_has_a_row_of_its_own(error: type[Exception]) -> None:
    assert error in BY_ERROR


@pytest.mark.parametrize("error", [error for error in ERRORS if error not in NEVER_ENDS_A_TRIAL | ROOTS])
def test_every_error_has_a_row_or_inherits_one(error: type[Exception]) -> None:
    nearest = next(cls for cls in error.__mro__ if cls in BY_ERROR)
    assert verdict_of(error("x")) is BY_ERROR[nearest]


def test_the_table_has_no_row_for_what_is_not_in_the_trees() -> None:
    assert set(BY_ERROR) <= set(ERRORS)


@pytest.mark.parametrize("error", BY_REPETITION)
def test_what_only_a_repetition_proves_is_infrastructure_until_then(error: type[Exception]) -> None:
    first, again = BY_ERROR[error], BY_REPETITION[error]
    assert (first.outcome, first.retry, first.tag) == (Outcome.INFRA_ERROR, True, again.tag)
    assert verdict_of(error("x"), before=None) is first
    assert verdict_of(error("x"), before="sandbox_unavailable") is first
    assert verdict_of(error("x"), before=first.tag) is again


def test_every_stop_of_an_agent_but_finished_has_a_row() -> None:
    assert set(BY_STOP) == set(AgentStop) - {AgentStop.FINISHED}


@pytest.mark.parametrize(
    "row", [*BY_ERROR.values(), *BY_STOP.values(), *BY_REPETITION.values(), WRONG_ANSWER], ids=lambda row: row.tag
)
def test_no_row_contradicts_itself(row: object) -> None:
    from harness.failures import Verdict

    assert isinstance(row, Verdict)
    infrastructure = row.outcome is Outcome.INFRA_ERROR
    assert not row.retry or infrastructure, "only infrastructure is retried"
    assert not infrastructure or not (row.grade or row.reward_valid), "infrastructure never yields a reward"
    assert not row.reward_valid or row.grade, "a valid reward was graded"
    assert row.trainable == (row.category is FailureCategory.CAPABILITY)
    assert not row.trainable or row.outcome is Outcome.AGENT_FAILED, "only the agent's own failure is a sample"


@pytest.mark.parametrize("module", [sandbox_errors, harness_errors], ids=lambda module: module.__name__)
def test_every_error_is_drawn_in_the_tree_of_its_module(module: ModuleType) -> None:
    assert module.__doc__ is not None
    missing = [error.__name__ for error in _errors_of(module) if error.__name__ not in module.__doc__.split()]
    assert not missing


@pytest.mark.parametrize("error", ERRORS)
def test_errors_survive_pickling(error: type[Exception]) -> None:
    before = error("what, where, what to do")
    after = pickle.loads(pickle.dumps(before))
    assert (type(after), str(after), vars(after)) == (error, str(before), vars(before))
