"""The console script: finds commands lazily, and says what went wrong in one line and an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness import __version__
from harness.cli import commands
from harness.cli.main import main

REPO = Path(__file__).resolve().parents[2]

PLUGIN = '''"""Commands of a plug-in, described in one line.

Not shown in the help.
"""
import importlib
import time
import typer

app = typer.Typer(no_args_is_help=True)

@app.command()
def greet(name: str, code: int = 0) -> None:
    """Say hello."""
    print(f"hello {name}")
    raise typer.Exit(code)

@app.command()
def wait() -> None:
    """Wait to be interrupted."""
    print("waiting", flush=True)
    time.sleep(30)

def fail(error: str) -> None:
    """Raise the error named module:Class."""
    module, _, name = error.partition(":")
    raise getattr(importlib.import_module(module), name)("the first line\\n  and more")

def answer() -> int:
    """Return an exit code."""
    return 3
'''


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder for the path of an interpreter; it holds a distribution that registers commands."""
    (tmp_path / "plug_commands.py").write_text(PLUGIN)
    info = tmp_path / "plug-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    rows = {
        "plug": "plug_commands:app",
        "fail": "plug_commands:fail",
        "answer": "plug_commands:answer",
        "broken": "no_such_module:app",
        "run": "plug_commands:answer",
    }
    lines = [f"{name} = {target}" for name, target in rows.items()]
    (info / "entry_points.txt").write_text("\n".join(["[harness.commands]", *lines]))
    return tmp_path


@pytest.fixture
def plugged(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of `site` are known to this process."""
    monkeypatch.syspath_prepend(site)


def start(*argv: str, site: Path) -> subprocess.Popen[str]:
    """The console script as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{REPO}{os.pathsep}{site}", "COLUMNS": "100"}
    command = [sys.executable, "-m", "harness.cli.main", *argv]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_version_names_the_program_and_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"harness {__version__}\n"


@pytest.mark.parametrize("argv", [[], ["--help"]])
def test_without_a_command_the_help_is_shown(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "Usage: harness" in out
    assert all(row.panel in out for row in commands.BUILT_IN.values())
    assert all(name in out for name in commands.BUILT_IN)


def test_an_unknown_command_is_one_line_with_the_closest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docter"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: No such command 'docter'. Did you mean 'doctor'? (see: harness --help)\n"


def test_an_unknown_option_is_one_line_that_says_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--jsom"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: No such option: --jsom")
    assert err.endswith("(see: harness doctor --help)\n")
    assert err.count("\n") == 1


@pytest.mark.usefixtures("plugged")
def test_a_plug_in_is_described_by_its_module_without_importing_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "Commands of a plug-in, described in one line." in out
    assert "Not shown" not in out
    assert "plug_commands" not in sys.modules


def test_a_plug_in_runs_and_its_exit_code_is_the_programs(site: Path) -> None:
    out, err = (process := start("plug", "greet", "you", "--code", "5", site=site)).communicate(timeout=30)
    assert (process.returncode, out, err) == (5, "hello you\n", "")


def test_a_command_may_return_its_exit_code(site: Path) -> None:
    (process := start("answer", site=site)).communicate(timeout=30)
    assert process.returncode == 3


def test_a_group_without_a_command_shows_its_own_help(site: Path) -> None:
    out, err = start("plug", site=site).communicate(timeout=30)
    assert "Usage: harness plug" in out
    assert "Say hello." in out
    assert err == ""


@pytest.mark.usefixtures("plugged")
def test_a_plug_in_never_replaces_a_command_of_ours() -> None:
    assert commands.command_rows()["run"] is commands.BUILT_IN["run"]


@pytest.mark.usefixtures("plugged")
def test_a_plug_in_that_cannot_be_loaded_hurts_nobody_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    capsys.readouterr()
    assert main(["broken"]) == 2
    err = capsys.readouterr().err
    assert err == (
        "error: command 'broken' cannot be loaded from no_such_module:app: No module named 'no_such_module'\n"
    )


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        ("harness.errors:UsageError", 2, "error: the first line and more"),
        ("harness.errors:TaskInvalid", 2, "error: the first line and more"),
        ("backends.registry:UnknownBackend", 2, "error: the first line and more"),
        ("backends.registry:MissingExtra", 2, "error: the first line and more"),
        ("backends.errors:SandboxUnavailable", 3, "error: the first line and more"),
        ("harness.errors:ModelAuthError", 1, "error: ModelAuthError: the first line and more"),
        (
            "builtins:RuntimeError",
            1,
            "error: RuntimeError: the first line and more (run again with HARNESS_DEBUG=1 for the traceback)",
        ),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    error: str, code: int, line: str, site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    monkeypatch.delenv("HARNESS_DEBUG", raising=False)
    assert main(["fail", error]) == code
    assert capsys.readouterr().err == f"{line}\n"


@pytest.mark.usefixtures("plugged")
def test_the_traceback_is_there_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DEBUG", "1")
    with pytest.raises(RuntimeError, match="the first line"):
        main(["fail", "builtins:RuntimeError"])


@pytest.mark.parametrize("error", ["builtins:KeyboardInterrupt", "typer:Abort"])
@pytest.mark.usefixtures("plugged")
def test_an_interrupted_command_ends_with_130(error: str) -> None:
    assert main(["fail", error]) == 130


def test_ctrl_c_ends_a_command_with_130_and_without_a_traceback(site: Path) -> None:
    process = start("plug", "wait", site=site)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
