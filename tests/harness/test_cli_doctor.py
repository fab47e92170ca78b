"""`harness doctor`: every backend's state and its fix, in a table and as JSON, and never a key's value."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from backends import registry
from backends.registry import BackendRow
from harness.cli.main import main

PROVIDERS = """
from backends.protocol import Readiness

class Working:
    async def check(self): return Readiness(works=True, isolation="vm", detail="engine [1.2]")
    async def close(self): pass

class Failing(Working):
    async def check(self):
        return Readiness(works=False, isolation="none", detail="no socket", fix="start it: service engine start")

class Hanging(Working):
    async def check(self):
        import asyncio
        await asyncio.sleep(60)
"""


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the given providers the only backends."""
    (tmp_path / "doctor_providers.py").write_text(PROVIDERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "doctor_providers", raising=False)

    def only(**classes: str) -> None:
        rows = {name: BackendRow("doctor_providers", attribute) for name, attribute in classes.items()}
        monkeypatch.setattr(registry, "BUILT_IN", rows)

    return only


def test_one_working_backend_is_enough(known: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    known(good="Working", bad="Failing")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "engine [1.2]" in out
    assert "fix bad: start it: service engine start" in out


def test_no_working_backend_exits_with_3(known: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    known(bad="Failing")
    assert main(["doctor", "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["works"] is False
    assert report["backends"]["bad"] == {
        "works": False,
        "isolation": "none",
        "detail": "no socket",
        "fix": "start it: service engine start",
    }


def test_a_backend_that_does_not_answer_holds_nobody_up(
    known: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.doctor._CHECK_TIMEOUT_SEC", 0.05)
    known(good="Working", mute="Hanging")
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["backends"]["mute"]["detail"] == "no answer within 0.05 s"


def test_a_missing_package_is_reported_with_the_line_that_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"cloud": BackendRow("no_such_sdk", "Provider", extra="cloud")}
    monkeypatch.setattr(registry, "BUILT_IN", rows)
    assert main(["doctor", "--json"]) == 3
    cloud = json.loads(capsys.readouterr().out)["backends"]["cloud"]
    assert cloud["detail"] == "backend 'cloud' needs the package 'no_such_sdk'"
    assert cloud["fix"] == "pip install 'harness-rl[cloud]'"


@pytest.mark.parametrize("form", [["--json"], []])
def test_keys_are_named_and_never_shown(
    form: list[str],
    known: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known(good="Working")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("EMPTY_API_KEY", "")
    main(["doctor", *form])
    out = capsys.readouterr().out
    assert "OPENAI_API_KEY" in out
    assert "EMPTY_API_KEY" not in out
    assert "sk-very-secret" not in out
