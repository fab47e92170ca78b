"""Task folders and verdicts that are broken in every way: each is one line of the record, and none hurts a sibling."""

from __future__ import annotations

import json
import random
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import make_task
from command_line import by_task, harness, records
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.task.dataset import load_dataset
from harness.task.model import BrokenTask, Task

N_BROKEN = 200
GOOD = ("good-a", "good-m", "good-z")

BROKEN_TOML = (
    "\0",
    "version = ",
    "version = '1.0'\nversion = '1.0'\n",
    "[[[[",
    "version = '9.9'\n",
    "version = '1.0'\n[agent]\ntimeout_sec = 'soon'\n",
    "version = '1.0'\n[agent]\ntimeout_sec = -1\n",
    "version = '1.0'\n[agent]\ntimeout_sec = nan\n",
    "version = '1.0'\n[agent]\ntimeout_sec = inf\n",
    "version = '1.0'\n[verifier]\ntimeout_sec = 0\n",
    "version = '1.0'\n[verifier]\nreward_range = [1]\n",
    "version = '1.0'\n[verifier]\nreward_range = [2, 1]\n",
    "version = '1.0'\nagent = 5\n",
    "version = '1.0'\n[environment]\nmemory = 'lots'\n",
    "version = '1.0'\n[environment]\nmemory_mb = -5\n",
    "version = '1.0'\n[environment]\ncpus = 'all'\n",
    "version = '1.0'\n[environment]\nos = 'windows'\n",
    "version = '1.0'\n[environment]\nos = 7\n",
    "version = '1.0'\n[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['a']\n",
    "version = '1.0'\n[environment]\nnetwork_mode = 'carrier pigeon'\n",
    "version = '1.0'\n[environment]\nworkdir = 'not/absolute'\n",
    "version = '1.0'\n[environment.env]\n'A=B' = 'x'\n",
    "version = '1.0'\n[environment.env]\nA = 5\n",
    "version = '1.0'\n[environment.healthcheck]\nretries = 0\ncommand = 'x'\n",
    "version = '1.0'\n[environment.tpu]\ntype = 'v5'\ntopology = '2x2'\n",
    "version = '1.0'\n[[steps]]\nname = '../../up'\n",
    "version = '1.0'\n[[steps]]\nname = ''\n",
    "version = '1.0'\n[[steps]]\nname = 'missing'\n",
    "version = '1.0'\n[[steps]]\nname = 'a'\n[[steps]]\nname = 'A'\n",
    "version = '1.0'\nsteps = 'three'\n",
    "version = '1.0'\nartifacts = ['../../../etc/passwd']\n",
    "version = '1.0'\nartifacts = [7]\n",
    "version = '1.0'\n[task]\nname = '../../etc'\n",
    "version = '1.0'\n[task]\nname = 'a/b/c'\n",
    "version = '1.0'\nx = " + "[" * 3000 + "]" * 3000 + "\n",
    "a" * 300_000,
)
"""What a task.toml can be and not be one."""


def break_task(folder: Path, chance: random.Random) -> None:
    """Break a good task's folder in one way, drawn by `chance`."""
    ways: list[Callable[[], object]] = [
        lambda: (folder / "task.toml").write_text(chance.choice(BROKEN_TOML)),
        lambda: (folder / "task.toml").write_bytes(b"\xff\xfe" + chance.randbytes(chance.randrange(1, 400))),
        (folder / "instruction.md").unlink,
        lambda: (folder / "instruction.md").write_bytes(b"\xff\xfe\xfd" + chance.randbytes(20)),
        lambda: shutil.rmtree(folder / chance.choice(["tests", "environment"])),
        (folder / "tests" / "test.sh").unlink,
        (folder / "environment" / "Dockerfile").unlink,
        lambda: (folder / "environment" / "docker-compose.yaml").write_text("services: {}\n"),
        lambda: (folder / chance.choice(["tests", "environment", "solution"]) / "link").symlink_to("/etc/passwd"),
        lambda: (folder / chance.choice(["tests", "environment"]) / "up").symlink_to("../../.."),
        lambda: (folder / "tests" / "dangling").symlink_to("../../nowhere"),
        lambda: _replace(folder / "instruction.md", directory=True),
        lambda: _replace(folder / "tests", directory=False),
        lambda: (folder / "environment" / "Dockerfile").write_text(chance.choice(["", "RUN x\n", "FROM a\nNOPE\n"])),
    ]
    chance.choice(ways)()


def _replace(path: Path, *, directory: bool) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    if directory:
        path.mkdir()
    else:
        path.write_text("")


def test_two_hundred_broken_tasks_leave_three_good_ones_unharmed(tmp_path: Path) -> None:
    chance = random.Random(0)
    for name in GOOD:
        make_task(tmp_path / "tasks", name)
    for number in range(N_BROKEN):
        break_task(make_task(tmp_path / "tasks", f"broken-{number:03}"), chance)
    done = harness(
        "run", tmp_path / "tasks", "--agent", "nop", "--jobs-dir", tmp_path / "jobs", "--name", "job", "--json"
    )
    assert done.code == 0, done.err
    assert "Traceback" not in done.out + done.err
    found = records(tmp_path / "jobs" / "job")
    assert len(found) == N_BROKEN + len(GOOD)
    outcomes = Counter(record["outcome"] for record in found.values())
    assert outcomes == {"task_error": N_BROKEN, "scored": len(GOOD)}, _surprises(found)
    assert {name for name, record in found.items() if record["outcome"] == "scored"} == {f"{name}__1" for name in GOOD}
    for name, record in found.items():
        if record["outcome"] == "task_error":
            message = record["failure"]["message"]
            assert 5 < len(message) < 600, name
            assert "\n" not in message, name
            assert "Error(" not in message, name
            assert record["reward"] is None
    assert harness("resume", tmp_path / "jobs" / "job").code == 0, "there is nothing to repeat"


def _surprises(found: dict[str, Any]) -> str:
    wrong = [
        record for name, record in found.items() if name.startswith("broken") and record["outcome"] != "task_error"
    ]
    return "; ".join(f"{record['trial_name']}: {record['outcome']}" for record in wrong[:5])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(
    ["version", "schema_version", "task", "metadata", "agent", "verifier", "environment", "solution", "steps", "x"]
)
tables = st.sampled_from(
    ["agent", "verifier", "environment", "environment.env", "environment.healthcheck", "task", "solution"]
)
fields = st.sampled_from(
    ["timeout_sec", "user", "env", "cpus", "memory", "memory_mb", "docker_image", "build_timeout_sec", "name", "gpus"]
)
documents = st.one_of(
    st.text(max_size=200),
    st.tuples(keys, json_values).map(lambda pair: f"{pair[0]} = {_toml(pair[1])}\n"),
    st.tuples(tables, fields, json_values).map(lambda three: f"[{three[0]}]\n{three[1]} = {_toml(three[2])}\n"),
)


def _toml(value: Any) -> str:
    """Close enough to TOML: what is not is one more malformed file."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two tasks."""
    folder = tmp_path_factory.mktemp("pair")
    for name in ("fuzzed", "good"):
        make_task(folder, name)
    return folder


@given(document=documents)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_task_file_says_its_dataset_loads(document: str, pair: Path) -> None:
    (pair / "fuzzed" / "task.toml").write_text(document, encoding="utf-8", errors="replace")
    tasks = load_dataset(str(pair))
    assert len(tasks) == 2
    good = [task for task in tasks if task.path.name == "good"]
    assert isinstance(good[0], Task)
    for task in tasks:
        if isinstance(task, BrokenTask):
            assert task.reason
            assert "\n" not in task.reason


VERDICTS: dict[str, bytes | str] = {
    "json-cut": b'{"reward": 1',
    "json-list": b"[1]",
    "json-text": b'"1"',
    "json-null": b"null",
    "json-true": b"true",
    "json-empty": b"",
    "json-spaces": b"   \n ",
    "json-bom": b"\xff\xfe",
    "json-nested": b'{"reward": {"a": 1}}',
    "json-boolean": b'{"reward": true}',
    "json-words": b'{"reward": "1"}',
    "json-nan": b'{"reward": NaN}',
    "json-too-large": b'{"reward": 1e999}',
    "json-no-keys": b"{}",
    "json-deep": b"[" * 50_000,
    "txt-empty": b"",
    "txt-words": b"passed",
    "txt-two": b"1 1",
    "txt-percent": b"100%",
    "txt-nan": b"nan",
    "txt-infinite": b"inf",
    "txt-hex": b"0x1",
    "txt-underscore": b"1_0",
    "txt-negative": b"-0.1",
    "txt-above": b"1.0000001",
    "txt-bytes": b"\xff\xfe1",
    "txt-nul": b"1\0",
    "json-digits": "head -c 5000000 /dev/zero | tr '\\0' 7 > /logs/verifier/reward.json",
    "txt-digits": "head -c 5000000 /dev/zero | tr '\\0' 1 > /logs/verifier/reward.txt",
    "json-folder": "mkdir /logs/verifier/reward.json",
    "status-cut": "echo '{' > /logs/verifier/status.json; echo 1 > /logs/verifier/reward.txt",
}
"""By name: the content of reward.json or reward.txt, or the command that makes it."""


@pytest.mark.case("B3")
@pytest.mark.case("B4")
def test_malformed_verdicts_give_no_reward_each_and_stop_nothing(tmp_path: Path) -> None:
    for name, verdict in VERDICTS.items():
        kind = name.partition("-")[0]
        files = {}
        if isinstance(verdict, bytes):
            quoted = shlex.quote("".join(f"\\{byte:03o}" for byte in verdict[:200]))
            command = f"printf {quoted} > /logs/verifier/reward.{kind}"
            if len(verdict) > 200:
                command = f"cp /tests/verdict /logs/verifier/reward.{kind}"
                files = {"tests/verdict": verdict.decode()}
        else:
            command = verdict
        make_task(tmp_path / "tasks", name, test=f"#!/bin/sh\n{command}\n", files=files)
    make_task(tmp_path / "tasks", "good")
    done = harness("run", tmp_path / "tasks", "--agent", "nop", "--jobs-dir", tmp_path / "jobs", "--name", "job")
    assert done.code == 0, done.out + done.err
    assert "Traceback" not in done.out + done.err
    found = by_task(tmp_path / "jobs" / "job")
    assert found["good"]["reward"] == 1.0
    for name in VERDICTS:
        record = found[name]
        assert (record["outcome"], record["reward"], record["reward_valid"]) == ("task_error", None, False), name
        expected = "reward_missing" if name == "json-folder" else "reward_invalid"
        assert record["failure"]["tag"] == expected, (name, record["failure"])
        assert len(record["failure"]["message"]) < 300, name
