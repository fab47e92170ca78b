"""What the agents' page shows is what works."""

from __future__ import annotations

import re
from pathlib import Path

from harness.agents.registry import BUILT_IN, agent_config
from harness.agents.tool_calling.config import ToolCallingConfig
from harness.llm.protocol import CallContext
from harness.llm.scripted import ScriptedReply, load_script

PAGE = (Path(__file__).parents[2] / "harness" / "agents" / "README.md").read_text(encoding="utf-8")
HARNESS_TOML, SCRIPT = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_the_five_lines_make_an_agent(tmp_path: Path) -> None:
    (tmp_path / "harness.toml").write_text(HARNESS_TOML)
    config = agent_config("mymodel", config=tmp_path / "harness.toml", options={"max_turns": 30})
    assert (config["model"], config["max_turns"]) == ("my-model", 30)


def test_the_script_is_one(tmp_path: Path) -> None:
    (tmp_path / "replies.toml").write_text(SCRIPT)
    script = load_script(tmp_path / "replies.toml")

    def first(**where: str) -> ScriptedReply:
        return script.for_run(CallContext(**{"task_name": "other", "turn": 0, "seed": 0, "time_left": 1, **where}))[0]

    assert first(task_name="hello/greeting").calls[0].name == "write"
    assert first().text == "I will look around."
    assert first(task_name="acme/ledger", step="close").calls[0].name == "memory"
    assert first(subagent="count the logs").calls[0].arguments == {"summary": "42"}


def test_every_built_in_and_only_real_settings_are_named() -> None:
    assert all(f"| `{name}` |" in PAGE for name in BUILT_IN)
    table = PAGE.partition("| setting | meaning |")[2].partition("\n\n")[0]
    named = {name for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert named and named <= ToolCallingConfig.model_fields.keys()
