"""Variables that come from the host, and the sandbox that a task asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.spec import NetworkMode, Resources
from harness.errors import TaskInvalid
from harness.task.env import resolve_env
from harness.task.loader import load_task
from harness.task.model import Environment, Task
from harness.task.sandbox import sandbox_spec
from harness.task.scaffold import write_task


@pytest.mark.parametrize(
    ("text", "host", "value", "secrets"),
    [
        ("plain", {}, "plain", set()),
        ("${A}", {"A": "s3cret"}, "s3cret", {"s3cret"}),
        ("${A:-other}", {"A": "s3cret"}, "s3cret", {"s3cret"}),
        ("${A:-other}", {}, "other", set()),
        ("${A:-}", {}, "", set()),
        ("${A:-x:-y}", {}, "x:-y", set()),
        ("${A}", {"A": ""}, "", set()),
        ("${A}", {"A": "${B}"}, "${B}", {"${B}"}),
        ("http://${A}/", {"A": "s3cret"}, "http://${A}/", set()),
        ("$A", {"A": "s3cret"}, "$A", set()),
    ],
)
def test_a_template_is_filled_in_once_and_as_a_whole(
    text: str, host: dict[str, str], value: str, secrets: set[str]
) -> None:
    resolved = resolve_env({"X": text}, host)
    assert resolved.values == {"X": value}
    assert resolved.secrets == secrets


@pytest.mark.case("B16")
def test_an_unset_variable_stops_the_task_before_there_is_a_sandbox() -> None:
    environment = Environment(image="x", env={"A": "${NOPE}"})
    with pytest.raises(TaskInvalid, match="A needs NOPE, which is not set"):
        sandbox_spec(environment, labels={}, ttl_sec=60, host_env={})


def test_a_template_inside_a_longer_value_is_a_finding(tmp_path: Path) -> None:
    folder = write_task(tmp_path, "demo")
    (folder / "task.toml").write_text("[environment]\nenv = {URL = 'http://${HOST}/'}")
    task = load_task(folder)
    assert isinstance(task, Task)
    assert [item.key for item in task.findings] == ["environment.env.URL"]


def test_a_sandbox_has_what_the_task_asks_and_no_folder_of_the_verifier() -> None:
    environment = Environment(
        image="debian",
        workdir="/srv",
        env={"TOKEN": "${T}"},
        network=NetworkMode.NONE,
        resources=Resources(cpus=2, memory_mb=64),
    )
    spec = sandbox_spec(environment, labels={"job": "j"}, ttl_sec=60, host_env={"T": "t"}, allow_unsafe=True)
    assert (spec.image, spec.build_dir, spec.workdir) == ("debian", None, "/srv")
    assert spec.env == {"TOKEN": "t"}
    assert spec.directories == ("/logs/agent", "/logs/artifacts", "/srv")
    assert (spec.network, spec.resources.cpus, spec.ttl_sec) == (NetworkMode.NONE, 2, 60)
    assert (spec.labels, spec.allow_unsafe, spec.build_timeout_sec) == ({"job": "j"}, True, 600)
