"""Folders that are no tasks, or not quite: each is one clear line, and none harms the loader or its siblings."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.task.dataset import load_dataset
from harness.task.digest import folder_digest
from harness.task.loader import load_task
from harness.task.model import BrokenTask, Task
from harness.task.scaffold import FILES, write_task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_task(tmp_path / "set", "demo")


def reason(folder: Path) -> str:
    task = load_task(folder)
    assert isinstance(task, BrokenTask), task
    assert "\n" not in task.reason
    return task.reason


@pytest.mark.parametrize("name", ["task.toml", "instruction.md", "tests/test.sh", "environment/Dockerfile"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert f"{name} is missing" in reason(folder)


@pytest.mark.parametrize("name", ["tests", "environment"])
def test_a_missing_folder_is_named(folder: Path, name: str) -> None:
    shutil.rmtree(folder / name)
    assert f"{name}/" in reason(folder)


def test_a_task_without_a_solution_loads(folder: Path) -> None:
    shutil.rmtree(folder / "solution")
    task = load_task(folder)
    assert isinstance(task, Task)
    assert task.steps[0].solution_dir is None
    assert task.findings == ()


def test_a_solution_without_solve_sh_is_a_finding(folder: Path) -> None:
    (folder / "solution/solve.sh").rename(folder / "solution/other.sh")
    task = load_task(folder)
    assert isinstance(task, Task)
    assert [item.path for item in task.findings] == ["solution"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"a = '\0'", "NUL"),
        (b"a = 1\r", "not valid TOML"),
        (b"#" * (1 << 20) + b"##", "larger than 1 MiB"),
    ],
)
def test_a_task_toml_that_is_no_text_is_refused(folder: Path, data: bytes, words: str) -> None:
    (folder / "task.toml").write_bytes(data)
    assert words in reason(folder)


def test_a_huge_task_toml_is_not_even_read(folder: Path) -> None:
    with (folder / "task.toml").open("wb") as file:
        file.truncate(100 << 20)
    assert "larger than" in reason(folder)


def test_a_task_toml_that_is_a_folder_is_refused(folder: Path) -> None:
    (folder / "task.toml").unlink()
    (folder / "task.toml").mkdir()
    assert "task.toml is not a file" in reason(folder)


def test_an_instruction_that_is_no_text_is_refused(folder: Path) -> None:
    (folder / "instruction.md").write_bytes(b"caf\xe9")
    assert "instruction.md is not UTF-8 at byte 3" in reason(folder)


def test_a_pipe_does_not_block_the_loader(folder: Path) -> None:
    (folder / "task.toml").unlink()
    os.mkfifo(folder / "task.toml")
    assert "neither a file nor a folder" in reason(folder)


@pytest.mark.case("H2")
@pytest.mark.parametrize(
    "place", ["environment/secret", "tests/data", "solution/x", "notes", "instruction.md", "tests/__pycache__"]
)
def test_a_link_that_leaves_the_folder_breaks_the_task(folder: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "canary").write_text("CANARY")
    (folder / place).unlink(missing_ok=True)
    (folder / place).symlink_to("../" * (2 + place.count("/")) + "canary")
    assert "leaves the task's folder" in reason(folder)
    assert "CANARY" not in reason(folder)
    (folder / place).unlink()
    (folder / place).symlink_to(tmp_path)
    assert "leaves the task's folder" in reason(folder)


@pytest.mark.case("H2")
def test_a_link_hidden_in_an_ignored_folder_breaks_the_task_too(folder: Path) -> None:
    (folder / "environment/__pycache__").mkdir()
    (folder / "environment/__pycache__/x").symlink_to("/etc/passwd")
    assert "leaves the task's folder" in reason(folder)


def test_links_within_the_folder_are_allowed(folder: Path) -> None:
    (folder / "environment/readme").symlink_to("../instruction.md")
    (folder / "environment/tests").symlink_to("../tests")
    (folder / "environment/later").symlink_to("nothing-yet")
    assert isinstance(load_task(folder), Task)


def test_links_that_form_a_cycle_break_the_task(folder: Path) -> None:
    (folder / "environment/up").symlink_to("..")
    assert "cycle" in reason(folder)
    (folder / "environment/up").unlink()
    (folder / "environment/self").symlink_to("self")
    assert "points at itself" in reason(folder)
    (folder / "environment/self").unlink()
    (folder / "environment/to-tests").symlink_to("../tests")
    (folder / "tests/to-environment").symlink_to("../environment")
    assert "cycle" in reason(folder)


@pytest.mark.case("B15")
def test_windows_line_endings_in_a_script_are_a_finding(folder: Path) -> None:
    (folder / "tests/test.sh").write_bytes(b"#!/bin/bash\r\necho 1 > /logs/verifier/reward.txt\r\n")
    (folder / "tests/test.sh").chmod(0o644)
    task = load_task(folder)
    assert isinstance(task, Task)
    (finding,) = task.findings
    assert finding.path == "tests/test.sh"
    assert "CRLF" in finding.message


@pytest.mark.parametrize("name", ["ab\ncd", "[red]x", "\udcff\udcfe", "a b", "x" * 200, "\x1b[31m"])
def test_a_folder_may_be_called_anything(tmp_path: Path, name: str) -> None:
    write_task(tmp_path, "demo").rename(tmp_path / name)
    (task,) = load_dataset(str(tmp_path))
    assert isinstance(task, Task)
    assert task.name.isprintable()
    task.name.encode()
    (tmp_path / name / "task.toml").write_text("[")
    (broken,) = load_dataset(str(tmp_path))
    assert isinstance(broken, BrokenTask)


def test_a_folder_that_is_not_there_or_is_a_file_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "no such folder" in reason(tmp_path / "nowhere")
    assert "not a folder" in reason(tmp_path / "file")
    assert reason(tmp_path / ("x" * 5000))
    assert reason(Path("a\0b"))


def test_broken_siblings_harm_nobody(tmp_path: Path) -> None:
    for number in range(10):
        write_task(tmp_path, f"task-{number}")
    for number in range(0, 10, 2):
        (tmp_path / f"task-{number}/task.toml").write_bytes(b"\xff")
    loaded = load_dataset(str(tmp_path))
    assert [isinstance(task, Task) for task in loaded] == [False, True] * 5


TOMLISH = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(
                    "[agent]",
                    "[verifier]",
                    "[environment]",
                    "[metadata]",
                    "[[steps]]",
                    "[task]",
                    "[verifier.environment]",
                ),
                *("name = 'a'", "timeout_sec = nan", "cpus = -0.0", "memory = '1G'", "env = {A = '${B}'}", "user = 1"),
                *(
                    "artifacts = ['/x']",
                    "artifacts = [{source = 'y'}]",
                    "min_reward = {a = inf}",
                    "tpu = {}",
                    "steps = 1",
                ),
                *(
                    "reward_range = [0, 1]",
                    "docker_image = '-x'",
                    "network_mode = 'public'",
                    "version = 1",
                    "a.b.c = 1",
                ),
            ]
        ),
        st.builds("{} = {}".format, st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.text(max_size=20)),
        st.text(max_size=30),
    ),
    max_size=12,
).map("\n".join)


@settings(max_examples=200, deadline=None)
@given(content=st.one_of(st.binary(max_size=300), TOMLISH.map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_as_task_toml_give_a_task_or_a_reason(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = write_task(Path(place), "demo")
        (folder / "task.toml").write_bytes(content)
        task = load_task(folder)
        assert isinstance(task, Task) or (task.reason and task.reason.isprintable())


SHAPES = ("missing", "folder", "empty", "binary", "pipe", "dangling", "outside", "loop", "itself", "good")


@settings(max_examples=200, deadline=None)
@given(shapes=st.fixed_dictionaries({name: st.sampled_from(SHAPES) for name in FILES}))
def test_two_hundred_misshapen_folders_give_a_task_or_a_reason_and_leave_their_sibling_alone(
    shapes: dict[str, str],
) -> None:
    with tempfile.TemporaryDirectory() as place:
        write_task(Path(place), "sibling")
        folder = write_task(Path(place), "demo")
        for name, shape in shapes.items():
            misshape(folder / name, shape)
        loaded = {task.path.name: task for task in load_dataset(place)}
        assert isinstance(loaded["sibling"], Task)
        demo = loaded.get("demo")
        assert demo is None or isinstance(demo, Task) or demo.reason.isprintable()


def misshape(path: Path, shape: str) -> None:
    if shape == "good":
        return
    path.unlink()
    match shape:
        case "folder":
            path.mkdir()
        case "empty":
            path.touch()
        case "binary":
            path.write_bytes(b"\0\xff\r\n")
        case "pipe":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to("nowhere")
        case "outside":
            path.symlink_to("/etc/passwd")
        case "loop":
            path.symlink_to(".")
        case "itself":
            path.symlink_to(path.name)


def test_the_digest_is_the_content_and_nothing_else(tmp_path: Path) -> None:
    one, two = write_task(tmp_path / "a", "demo"), tmp_path / "b"
    shutil.copytree(one, two)
    (two / ".git").mkdir()
    (two / ".git/HEAD").write_text("x")
    (two / "tests/__pycache__").mkdir()
    (two / "tests/__pycache__/x.pyc").write_text("x")
    (two / ".DS_Store").write_text("x")
    os.utime(two / "instruction.md", (0, 0))
    (two / "instruction.md").chmod(0o600)
    assert folder_digest(one) == folder_digest(two)
    assert folder_digest(one).startswith("sha256:")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "instruction.md").write_text("other"),
        lambda folder: (folder / "instruction.md").chmod(0o755),
        lambda folder: (folder / "instruction.md").rename(folder / "instruction.txt"),
        lambda folder: (folder / "tests/empty").touch(),
        lambda folder: (folder / "tests/link").symlink_to("test.sh"),
        lambda folder: (folder / "tests/test.sh").rename(folder / "test.sh"),
    ],
    ids=["content", "mode", "name", "new file", "new link", "moved"],
)
def test_any_change_of_a_file_changes_the_digest(folder: Path, change: object) -> None:
    before = folder_digest(folder)
    assert callable(change)
    change(folder)
    assert folder_digest(folder) != before


@settings(max_examples=50, deadline=None)
@given(
    names=st.lists(st.sampled_from(["a", "b/c", "b-c", "b/d", "z", "é"]), unique=True, min_size=1), order=st.randoms()
)
def test_the_digest_does_not_depend_on_the_order_of_creation(names: list[str], order: object) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        for place, listing in ((first, names), (second, names[::-1])):
            for name in listing:
                path = Path(place, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(name)
        assert folder_digest(Path(first)) == folder_digest(Path(second))
