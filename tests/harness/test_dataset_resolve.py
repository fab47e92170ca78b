"""From a word on the command line to a list of tasks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.task.dataset import load_dataset
from harness.task.model import BrokenTask, Task
from harness.task.scaffold import write_task


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    """A folder of ten tasks, task-0 to task-9."""
    folder = tmp_path / "ten"
    for number in reversed(range(10)):
        write_task(folder, f"task-{number}")
    return folder


def names(reference: Path | str, **options: object) -> list[str]:
    return [task.name for task in load_dataset(str(reference), **options)]  # type: ignore[arg-type]


def test_a_folder_of_tasks_is_sorted_and_knows_its_source(ten: Path) -> None:
    tasks = load_dataset(str(ten))
    assert [task.name for task in tasks] == [f"task-{number}" for number in range(10)]
    assert {task.source for task in tasks} == {"ten"}


def test_tasks_may_lie_one_level_deeper(tmp_path: Path) -> None:
    write_task(tmp_path / "b", "two")
    write_task(tmp_path / "a", "three")
    write_task(tmp_path, "c")
    (tmp_path / "docs").mkdir()
    write_task(tmp_path / ".hidden", "four")
    assert names(tmp_path) == ["three", "two", "c"]


def test_a_single_task_is_a_dataset_of_one(ten: Path) -> None:
    assert names(ten / "task-3") == ["task-3"]


def test_a_bundled_suite_goes_by_its_name_wherever_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "hello/greeting" in names("hello")
    assert names("hello/greeting") == ["hello/greeting"]
    write_task(tmp_path / "hello", "mine")
    assert "hello/greeting" in names("hello")
    assert names("./hello") == ["mine"]


def test_a_suite_is_found_without_importing_the_code_of_evals() -> None:
    code = (
        "import sys; from harness.task.dataset import load_dataset; assert load_dataset('hello');"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] == 'evals'))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_filters_come_first_then_the_shuffle_then_the_cut(ten: Path) -> None:
    assert names(ten, include=["task-[0-4]"], exclude=["*3"]) == ["task-0", "task-1", "task-2", "task-4"]
    assert names(ten, include=["task-[0-4]"], n=2) == ["task-0", "task-1"]
    shuffled = names(ten, seed=7)
    assert shuffled == names(ten, seed=7) != names(ten)
    assert sorted(shuffled) == names(ten)
    assert names(ten, seed=7, n=3) == shuffled[:3]
    assert names(ten, n=99) == names(ten)


def test_globs_match_the_whole_name_its_last_part_and_the_folder() -> None:
    for glob in ("hello/greeting", "greeting", "greet*", "*/greeting"):
        assert names("hello", include=[glob]) == ["hello/greeting"]


def test_two_tasks_with_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_task(tmp_path / folder, "same")
    write_task(tmp_path / "b", "other")
    first, other, second = load_dataset(str(tmp_path))
    assert (first.name, other.name, second.name) == ("same@a/same", "other", "same@b/same")
    assert isinstance(first, Task)
    assert "also called 'same'" in first.findings[-1].message


def test_a_folder_meant_to_be_a_task_is_reported_and_another_is_not(tmp_path: Path) -> None:
    write_task(tmp_path, "good")
    write_task(tmp_path, "no-toml")
    (tmp_path / "no-toml/task.toml").unlink()
    (tmp_path / "notes").mkdir()
    good, broken = load_dataset(str(tmp_path))
    assert isinstance(good, Task)
    assert isinstance(broken, BrokenTask)
    assert broken.reason == "task.toml is missing"


@pytest.mark.case("H2")
def test_a_child_that_is_a_link_out_of_the_dataset_is_not_followed(tmp_path: Path) -> None:
    outside = write_task(tmp_path / "elsewhere", "private")
    write_task(tmp_path / "set", "good")
    (tmp_path / "set/link").symlink_to(outside)
    good, link = load_dataset(str(tmp_path / "set"))
    assert isinstance(good, Task)
    assert isinstance(link, BrokenTask)
    assert "leaves the dataset" in link.reason


@pytest.mark.case("F8")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"include": ["task-1x"]}, r"none of the 10 tasks .*include 'task-1x'; did you mean task-1"),
        ({"exclude": ["*"]}, r"none of the 10 tasks .*exclude '\*'"),
        ({"n": 0}, "at least 1"),
        ({"n": -3}, "at least 1"),
    ],
)
def test_an_empty_selection_says_what_was_tried(ten: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        names(ten, **options)


def test_a_folder_without_tasks_says_what_a_task_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no tasks: a task is a folder"):
        load_dataset(str(tmp_path))


def test_a_missing_path_names_the_suites_and_the_closest(ten: Path) -> None:
    with pytest.raises(UsageError, match=r"bundled: core, hello.*did you mean hello"):
        load_dataset("helo")
    with pytest.raises(UsageError, match=r"did you mean .*/ten"):
        load_dataset(str(ten.parent / "tne"))
    with pytest.raises(UsageError, match="no task 'greting'; did you mean greeting"):
        load_dataset("hello/greting")


@pytest.mark.parametrize("reference", ["", "\0", "x" * 5000, "~nobody-at-all/x", "https://host/repo.git", "a\nb"])
def test_nonsense_is_one_line(reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_dataset(reference)
    assert "\n" not in str(caught.value)


def test_a_file_is_no_dataset(ten: Path) -> None:
    with pytest.raises(UsageError, match="is a file"):
        load_dataset(str(ten / "task-0/task.toml"))
