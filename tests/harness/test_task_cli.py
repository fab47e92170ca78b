"""`harness tasks list|show|init`, as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from harness.cli.main import main
from harness.task.scaffold import write_task


class Done(NamedTuple):
    """How a command ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Harness(Protocol):
    """Runs `harness tasks` with the arguments given."""

    def __call__(self, *arguments: str) -> Done: ...


@pytest.fixture
def harness(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Harness:
    """The command line, in this process, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Done:
        code = main(["tasks", *arguments])
        return Done(code, *capsys.readouterr())

    return run


def test_list_shows_every_task_of_a_suite(harness: Harness) -> None:
    done = harness("list", "hello")
    assert done.returncode == 0, done.stderr
    assert "hello/greeting" in done.stdout and "recovery" in done.stdout
    assert done.stdout.rstrip().endswith("7 tasks")


def test_list_as_json_is_json_and_filters_apply(harness: Harness) -> None:
    done = harness("list", "hello", "--include", "*r*", "--exclude", "roman", "--n-tasks", "2", "--json")
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == ["hello/backup-repair", "hello/greeting"]
    assert rows[0]["digest"].startswith("sha256:")


def test_list_shows_broken_tasks_with_their_reason(harness: Harness, tmp_path: Path) -> None:
    write_task(tmp_path, "good")
    (write_task(tmp_path, "bad") / "task.toml").write_text("[environment]\nos = 'windows'")
    done = harness("list", str(tmp_path))
    assert done.returncode == 0
    assert "unsupported: [environment] asks for Windows" in done.stdout
    assert "2 tasks, 1 of them cannot run" in done.stdout


def test_show_tells_limits_with_their_origin_and_findings(harness: Harness, tmp_path: Path) -> None:
    folder = write_task(tmp_path, "demo")
    (folder / "task.toml").write_text("[agent]\ntimeout_sec = 5\ntimout_sec = 6\n")
    text = harness("show", str(folder)).stdout
    assert "single line `42`" in text
    assert "sha256:" in text
    assert ["agent_timeout_sec", "5", "task"] in [line.split() for line in text.splitlines()]
    assert ["cpus", "backend's", "default"] in [line.split() for line in text.splitlines()]
    assert "finding task.toml agent.timout_sec: line 3" in text
    details = json.loads(harness("show", str(folder), "--json").stdout)
    assert {"limit": "agent_timeout_sec", "value": 5.0, "origin": "task"} in details["limits"]


@pytest.mark.case("H6")
def test_a_tasks_words_neither_style_nor_steer_the_terminal(harness: Harness, tmp_path: Path) -> None:
    folder = write_task(tmp_path, "demo")
    (folder / "instruction.md").write_text("[bold]loud[/bold] [/] \x1b[31mred\x1b[0m\n")
    (folder / "task.toml").write_text(
        '[metadata]\ncategory = "[link=http://x]y[/]"\ndifficulty = "\\u001b]0;t\\u0007"\n'
    )
    for done in (harness("show", str(folder)), harness("list", str(folder))):
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout and "\x07" not in done.stdout
        assert "[link=http://x]y[/]" in done.stdout
    assert "[bold]loud[/bold] [/]" in harness("show", str(folder)).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "helo"],
        ["list", "hello", "--include", "nope"],
        ["show", "hello"],
        ["show", "hello/nope"],
        ["init", "/proc/nowhere", "x"],
        ["init", "/tmp", "../x"],
        ["init", "/", "tmp"],
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_exit_code_2(harness: Harness, arguments: list[str]) -> None:
    done = harness(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: ")


def test_folders_whose_names_are_no_text_are_listed_all_the_same(harness: Harness, tmp_path: Path) -> None:
    write_task(tmp_path, "demo").rename(tmp_path / "\udcff\n")
    for done in (harness("list", str(tmp_path)), harness("list", str(tmp_path), "--json")):
        assert done.returncode == 0, done.stderr
        assert "\ufffd\ufffd" in done.stdout


def test_showing_a_broken_task_says_why(harness: Harness, tmp_path: Path) -> None:
    (write_task(tmp_path, "bad") / "task.toml").write_text("x = [")
    done = harness("show", str(tmp_path / "bad"))
    assert done.returncode == 2
    assert "bad: task.toml is not valid TOML" in done.stderr


def test_init_writes_a_task_that_loads_clean(harness: Harness, tmp_path: Path) -> None:
    done = harness("init", str(tmp_path / "new"), "mine")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(harness("list", str(tmp_path / "new"), "--json").stdout)
    assert (row["name"], row["findings"], row["steps"]) == ("mine", 0, 1)
    assert os.access(tmp_path / "new/mine/tests/test.sh", os.X_OK)
