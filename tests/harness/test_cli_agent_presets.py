"""Agents that are programs of their own: their presets, what harness.toml changes of them, and what is refused."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.agents.cli_native.config import CliConfig
from harness.agents.cli_native.install import layer, passed_on
from harness.agents.cli_native.presets import preset_names
from harness.agents.registry import agent_names, create_agent, resolve_agent
from harness.errors import UsageError
from harness.proxy import service

DRIVEN = {"aider", "claude-code", "codex", "gemini-cli", "kimi-code", "mini-swe-agent", "opencode", "qwen-code"}
"""By tests/e2e/test_e2e_cli_agents.py."""


def settings(name: str, **kwargs: Any) -> CliConfig:
    found = resolve_agent(name, **{"model": "m", **kwargs}).settings
    assert isinstance(found, CliConfig)
    return found


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_complete_and_its_scripts_are_shell(name: str) -> None:
    config = settings(name, options={"base_url": "http://127.0.0.1:1/v1"})
    made = layer(config, name, {})
    assert made is not None and made.name == f"{name} {config.version}"
    for script in (made.script, config.command):
        done = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert any("{key}" in value for value in config.env.values())
    assert "{key}" not in config.command and "{base_url}" not in config.command


def test_there_is_a_preset_for_what_was_driven_and_for_nothing_else() -> None:
    assert set(preset_names()) == DRIVEN
    assert set(agent_names()) >= {*preset_names(), "cli"}


def test_a_table_changes_single_values_of_a_preset(tmp_path: Path) -> None:
    config = tmp_path / "harness.toml"
    config.write_text(
        '[agents.mine]\ntype = "claude-code"\nversion = "9.9"\nmodel = "q"\nbase_url = "http://gpu:8000/v1"\n'
        'env = { EXTRA = "1", IS_SANDBOX = "0" }\nca_bundle = "ca.pem"\n'
    )
    mine, preset = settings("mine", config=config, model=None), settings("claude-code")
    assert (mine.version, mine.model, mine.command) == ("9.9", "q", preset.command)
    assert mine.ca_bundle == tmp_path / "ca.pem"
    assert mine.env == {**preset.env, "EXTRA": "1", "IS_SANDBOX": "0"}
    assert mine.install.script == preset.install.script
    assert settings("mine", config=config, options={"env.EXTRA": "2"}).env["EXTRA"] == "2"


def test_a_program_of_ones_own_needs_no_preset(tmp_path: Path) -> None:
    config = tmp_path / "harness.toml"
    config.write_text(
        '[agents.mine]\ntype = "cli"\nversion = "1"\ndialect = "chat"\ncommand = "my-agent"\nmodel = "q"\n'
        'base_url = "http://gpu:8000/v1"\nenv = { OPENAI_BASE_URL = "{base_url}", OPENAI_API_KEY = "{key}" }\n'
    )
    agent = create_agent("mine", config=config)
    assert (agent.name, agent.version, agent.model_name, agent.layer) == ("mine", "1", "q", None)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("codex", {}, "agent 'codex': 'model' must be set"),
        ("codex", {"model": "m", "base_url": "x", "upstreams": {"http://a": 1}}, "one endpoint as base_url"),
        ("codex", {"model": "m", "upstreams": {"gpu": 1}}, "upstreams are written as"),
        ("codex", {"model": "m", "script": "x.toml", "base_url": "http://a"}, "not by both"),
        ("codex", {"model": "m", "comand": "x"}, "did you mean 'command'?"),
        ("codex", {"model": "m", "base_url": "http://a", "ca_bundle": "/no/such"}, "no file /no/such"),
        ("claud-code", {}, "did you mean 'claude-code'?"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        create_agent(name, options=options)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_nothing_is_needed_but_what_the_proxys_extra_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extra = tomllib.loads(lines)["project"]["optional-dependencies"]["proxy"]
    installed = {re.split("[<>=]", each)[0] for each in extra}
    monkeypatch.setattr(service, "find_spec", lambda name: name if name in installed else None)
    options = {"model": "m", "base_url": "http://a"}
    assert create_agent("codex", options=options).name == "codex"
    installed.remove("uvicorn")
    with pytest.raises(UsageError, match=r"^agent 'codex' needs uvicorn: pip install 'harness-rl\[proxy\]'$"):
        create_agent("codex", options=options)


def test_installing_sees_the_proxies_and_indexes_of_this_machine_but_no_secret_and_no_path_of_it() -> None:
    here = {
        "https_proxy": "http://proxy:3128",
        "PIP_INDEX_URL": "https://mirror/simple",
        "PIP_CERT": "/etc/ssl/ca.pem",
        "PIP_EXTRA_INDEX_URL": "https://x file:///opt/wheels",
        "NPM_CONFIG_REGISTRY": "https://mirror/npm",
        "NPM_CONFIG_TOKEN": "abc",
        "OPENAI_API_KEY": "sk-1",
        "HOME": "/home/me",
    }
    assert passed_on(settings("codex").install.pass_env, here) == {
        "https_proxy": "http://proxy:3128",
        "PIP_INDEX_URL": "https://mirror/simple",
        "NPM_CONFIG_REGISTRY": "https://mirror/npm",
    }


def test_the_machines_settings_do_not_change_what_is_installed(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("certificates")
    plain = layer(settings("codex"), "codex", {})
    behind = layer(settings("codex"), "codex", {"SSL_CERT_FILE": str(bundle), "https_proxy": "http://proxy:3128"})
    newer = layer(settings("codex", options={"version": "9.9"}), "codex", {})
    assert plain and behind and newer
    assert behind.files == {"ca.crt": bundle} and behind.env == {"https_proxy": "http://proxy:3128"}
    assert plain.digest == behind.digest != newer.digest
