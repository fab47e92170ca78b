"""`harness train` from the command line: settings, help that costs nothing, errors in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from trainer.config import parse_config
from trainer.settings import tables_in, tables_of


def test_settings_come_from_a_file_and_then_from_set(tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_text('algo = "grpo"\nsteps = 9\n[optimizer]\nlr = 1e-5\nwarmup_steps = 3\n')
    found = tables_of(tables_in(file), ["optimizer.lr=1e-4", "steps=8", "policy.precision=bfloat16"])
    assert found == {
        "algo": "grpo",
        "steps": 8,
        "optimizer": {"lr": 1e-4, "warmup_steps": 3},
        "policy": {"precision": "bfloat16"},
    }


@pytest.mark.parametrize("said", ["lr", "=3", "algo.x=1"])
def test_a_setting_that_is_none_is_named(tmp_path: Path, said: str) -> None:
    file = tmp_path / "train.toml"
    file.write_text('algo = "grpo"\n')
    with pytest.raises(UsageError, match=f"--set {said}"):
        tables_of(tables_in(file), [said])


def test_help_loads_no_torch() -> None:
    code = "import sys, trainer.cli; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_an_export_that_is_none_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    code = (
        "import sys, typer; from trainer.cli import train; from harness.cli import main\n"
        "app = typer.Typer(); app.command()(train)\n"
        "try: typer.main.get_command(app).main(sys.argv[1:], standalone_mode=False)\n"
        "except Exception as error: sys.exit(main._report(error))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), "--model", "tiny"], capture_output=True, text=True, timeout=180
    )
    assert ended.returncode == 2
    assert ended.stderr.strip() == f"error: {tmp_path} is not an export made by --to-rl"


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"foo": 1}, "training: foo: there is no such setting"),
        ({"seed": -1}, "training: seed: "),
        ({"seed": 2**63}, "training: seed: "),
        ({"optimizer": {"betas": [1, 2]}}, "training: optimizer.betas.0: "),
        ({"rewards": {"overlong": [10, 0]}}, "training: rewards.overlong.1: "),
        ({"reference": "model"}, "training: a reference is what kl is measured against"),
    ],
)
def test_a_setting_out_of_bounds_is_refused_before_anything_is_loaded(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        parse_config(tables)
