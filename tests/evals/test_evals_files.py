"""The files of this package: categories, quarantines and baselines, whole or refused in one line."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import run_of, task_run, uniform

import evals
from evals.baseline import load_run, save_baseline
from evals.categories import Category, groups_of, in_order, load_categories
from evals.compare import compare
from evals.gate.quarantine import Entry, apply, read_quarantine
from evals.pairing import pair
from harness.errors import UsageError

TWELVE = [
    *("file_operations", "tool_usage", "memory", "subagents", "hitl", "skills", "system_prompt", "followup_quality"),
    *("summarization", "retrieval", "coding", "recovery"),
]


def test_twelve_categories_are_built_in_each_with_a_label_and_a_description() -> None:
    known = load_categories()
    assert list(known) == TWELVE
    assert all(
        each.label and each.description.endswith(".") and each.radar and each.min_n == 5 for each in known.values()
    )
    assert set(tomllib.loads((Path(evals.__file__).parent / "categories.toml").read_text())) == set(TWELVE)


def test_a_file_adds_categories_and_replaces_built_in_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[sql]\nlabel = "SQL"\nmin_n = 20\n[memory]\nradar = false\n')
    known = load_categories(file)
    assert known["sql"] == Category(key="sql", label="SQL", min_n=20)
    assert known["memory"] == Category(key="memory", label="Memory", radar=False)
    assert in_order(["zzz", "sql", "coding", "uncategorised", "aaa"], known) == [
        "coding",
        "sql",
        "aaa",
        "zzz",
        "uncategorised",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "is not TOML"),
        ("sql = 1", "a category is a table"),
        ("[sql]\ncolor = 1", "unknown field 'color' (known: label, description, radar, min_n)"),
        ("[sql]\nlabel = 1", "label cannot be 1"),
        ("[sql]\nmin_n = 0", "min_n cannot be 0"),
        ("[sql]\nmin_n = true", "min_n cannot be True"),
    ],
)
def test_a_malformed_category_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        load_categories(tmp_path / "c.toml")
    assert said in str(error.value)


def test_a_task_is_grouped_by_its_categories_else_its_tags() -> None:
    assert groups_of(["a", "a", "b"], ["t"]) == ("a", "b")
    assert groups_of([], ["t"]) == ("t",)
    assert groups_of([], []) == ("uncategorised",)


def test_a_quarantine_names_a_task_a_reason_and_a_day(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text('[[quarantine]]\ntask = "a/*"\nreason = "flaky"\nuntil = 2026-12-31\n')
    entries = read_quarantine(file)
    assert entries == [Entry("a/*", "flaky", date(2026, 12, 31))]
    assert apply(entries, ["a/b", "c"], date(2026, 12, 31)).reasons == {"a/b": "flaky (until 2026-12-31)"}
    assert apply(entries, ["a/b", "c"], date(2027, 1, 1)).reasons == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quarantine = 1", "written as [[quarantine]]"),
        ("x = 1", "written as [[quarantine]]"),
        ('[[quarantine]]\ntask = "a"\nreason = "r"', "needs task, reason and until"),
        ('[[quarantine]]\ntask = "a"\nreason = "r"\nuntil = "2026-12-31"', "without quotes"),
        ('[[quarantine]]\ntask = ""\nreason = "r"\nuntil = 2026-12-31', "are texts"),
    ],
)
def test_a_malformed_quarantine_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        read_quarantine(tmp_path / "q.toml")
    assert said in str(error.value)


def test_a_baseline_reads_back_as_it_was_saved(tmp_path: Path) -> None:
    run = run_of(
        [
            task_run("a", 1, 2, 3, categories=("x",), tags=("t",), cost=0.5, seconds=1.25, rewards=1.5),
            task_run("b", 0, 0, 3),
        ],
        label="jobs/mine",
        pass_mark=0.5,
    )
    save_baseline(run, tmp_path / "b.json")
    again = load_run(tmp_path / "b.json")
    assert again.tasks == run.tasks
    assert again.dataset_digest == run.dataset_digest
    assert (again.agent, again.pass_mark, again.outcomes) == (run.agent, run.pass_mark, run.outcomes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "is not a baseline; make one with"),
        ({"version": 2}, "version 2; this harness reads 1"),
        ({"tasks": [{"name": "a"}]}, "is damaged at tasks.0.digest"),
        (
            {"tasks": [{"name": "a", "digest": "", "total": 1, "counted": 2, "passed": 0, "rewards": 0}]},
            "does not hold",
        ),
        ({"pass_mark": "NaN"}, "is damaged at pass_mark"),
    ],
)
def test_a_damaged_baseline_is_refused_in_one_line(change: dict[str, object], said: str, tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    save_baseline(uniform(2, 2, 1), file)
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UsageError) as error:
        load_run(file)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[", "[]", "1", "NaN"])
def test_what_is_no_json_object_is_no_baseline(text: str, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError, match="is not a baseline"):
        load_run(tmp_path / "b.json")


NAMES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz"), max_size=6)


@pytest.mark.case("F9")
@given(NAMES, NAMES)
def test_pairing_accounts_for_every_task_of_both_runs(first: dict[str, str], second: dict[str, str]) -> None:
    base, new = (
        run_of([task_run(name, 1, 1, digest=f"{digest}") for name, digest in each.items()]) for each in (first, second)
    )
    found = pair(base, new)
    assert len(found.pairs) + len(found.removed) + len(found.changed) == len(first)
    assert len(found.pairs) + len(found.added) + len(found.changed) == len(second)
    assert all(old.digest == now.digest for old, now in found.pairs)
    assert found.complete == (not found.left_out)
    assert pair(base, base).complete


def test_a_comparison_flags_categories_by_false_discoveries_and_orders_what_changed() -> None:
    base = run_of([task_run(f"t{n}", 2, 2, categories=("coding" if n < 10 else "memory",)) for n in range(20)])
    tasks = [task_run(f"t{n}", 0 if n < 8 else 2, 2, categories=("coding" if n < 10 else "memory",)) for n in range(20)]
    new = run_of(tasks)
    found = compare(base, new, pair(base, new), load_categories())
    assert [(each.key, each.difference.tasks) for each in found.categories] == [("memory", 10), ("coding", 10)]
    assert [each.q <= 0.05 for each in found.categories] == [False, True]
    assert [flip.new.name for flip in found.flips] == [f"t{n}" for n in range(8)]
    assert found.overall is not None
    assert found.overall.value == pytest.approx(-0.4)
    assert found.overall.p_worse == 2**-8
    assert found.reward is None
