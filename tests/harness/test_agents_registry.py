"""Agents by name: what can be asked for, how it is set, and what is said when it cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.agents.protocol import Agent
from harness.agents.registry import BUILT_IN, agent_config, agent_names, create_agent
from harness.errors import UsageError

TOML = """
[agents.mymodel]
type = "tool_calling"
model = "my-model"
base_url = "http://127.0.0.1:9/v1"
parameters = { temperature = 0.7, top_p = 0.9 }

[agents.played]
type = "scripted"
script = "scripts/s.toml"

[agents.tool_calling]
model = "default-model"
base_url = "http://127.0.0.1:9/v1"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder below one with a harness.toml and a script."""
    (tmp_path / "harness.toml").write_text(TOML)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/s.toml").write_text('[[replies]]\ntext = "hi"\n')
    (tmp_path / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep/er")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def refusal(name: str, **request: Any) -> str:
    """The one line that a request is refused with."""
    with pytest.raises(UsageError) as refused:
        create_agent(name, **request)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("name", ["oracle", "nop"])
def test_built_ins_need_nothing(name: str) -> None:
    agent = create_agent(name)
    assert isinstance(agent, Agent)
    assert (agent.name, agent.model_name) == (name, None)
    assert agent_config(name) == {"name": name, "type": name}


def test_a_table_of_the_nearest_file_above_is_five_lines_to_a_model() -> None:
    agent = create_agent("mymodel")
    assert isinstance(agent, Agent)
    assert (agent.name, agent.model_name) == ("mymodel", "my-model")
    config = agent_config("mymodel")
    assert (config["type"], config["parameters"]) == ("tool_calling", {"temperature": 0.7, "top_p": 0.9})
    json.dumps(config, allow_nan=False)


def test_a_table_named_like_a_built_in_sets_that_one_up() -> None:
    assert create_agent("tool_calling").model_name == "default-model"


def test_options_override_single_settings_and_the_model() -> None:
    options = {"max_turns": "7", "parameters.temperature": 0.1, "stream": "true"}
    config = agent_config("mymodel", model="other", options=options)
    assert (config["model"], config["max_turns"], config["stream"]) == ("other", 7, True)
    assert config["parameters"] == {"temperature": 0.1, "top_p": 0.9}
    assert agent_config("mymodel")["parameters"]["temperature"] == 0.7


def test_paths_start_from_the_folder_of_the_file_that_names_them(here: Path) -> None:
    assert create_agent("played").model_name == "scripted"
    assert agent_config("played")["script"] == str(here / "scripts/s.toml")
    (here / "deep/er/mine.toml").write_text("")
    assert agent_config("played", options={"script": "mine.toml"})["script"] == "mine.toml"


@pytest.mark.case("D5")
def test_a_run_with_an_edited_script_is_another_run(here: Path) -> None:
    before = agent_config("played")
    (here / "scripts/s.toml").write_text('[[replies]]\ntext = "ho"\n')
    assert agent_config("played") != before


def test_a_file_can_be_named(here: Path) -> None:
    other = here / "other.toml"
    other.write_text('[agents.x]\ntype = "nop"\n')
    assert create_agent("x", config=other).name == "nop"
    assert "x" in agent_names(other) and "mymodel" not in agent_names(other)
    assert {"mymodel", *BUILT_IN} <= set(agent_names())


def test_an_unknown_name_lists_the_known_ones_and_the_closest() -> None:
    line = refusal("mymodle")
    assert "unknown agent 'mymodle'; did you mean 'mymodel'?" in line
    assert all(name in line for name in BUILT_IN)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('type = "tool_calling"\nmodle = "x"\nmodel = "x"', "unknown key 'modle'; did you mean 'model'?"),
        ('type = "tool_calling"', "'model' must be set"),
        ('type = "tool_calling"\nmodel = "x"\nmax_turns = 0', "max_turns: Input should be greater than"),
        ('type = "scripted"\nscript = "none.toml"', "cannot read the script"),
        ('type = "nop"\nmodel = "x"', "nop has no model"),
        ('type = "tool_caling"', "unknown agent 'tool_caling'; did you mean 'tool_calling'?"),
        ("type = 7", "type must be a string"),
        ('type = "tool_calling"\nmodel = "x"\nbase_url = "http://x"\ncost_budget_usd = 1', "needs the model's price"),
        ('type = "tool_calling"\nmodel = "x"', "environment variable OPENAI_API_KEY, which is not set"),
        ('type = "tool_calling"\nmodel = "x"\napi_key_env = "MY_KEY"', "environment variable MY_KEY"),
        ('type = "nowhere:Agent"', "cannot import 'nowhere'"),
        ('type = "json:Agent"', "module 'json' has no 'Agent'"),
        ('type = "json:dumps"\nx = 1', "does not take these options"),
        ('type = "collections:OrderedDict"', "it lacks name, version, model_name, run, close"),
    ],
)
def test_a_wrong_table_is_one_line_with_its_place(here: Path, table: str, message: str) -> None:
    (here / "harness.toml").write_text(f"[agents.mine]\n{table}\n")
    assert message in refusal("mine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[agents", "is not TOML"),
        ("[agent.x]", "unknown table [agent]"),
        ("[agents]\nx = 1", "write [agents.x]"),
        ("agents = 3", "agents are written as [agents.NAME]"),
    ],
)
def test_a_wrong_file_is_one_line(here: Path, text: str, message: str) -> None:
    (here / "harness.toml").write_text(text)
    assert message in refusal("nop")


def test_a_file_that_is_not_there_is_named(here: Path) -> None:
    assert "none.toml" in refusal("nop", config=here / "none.toml")


def test_options_that_reach_into_what_is_no_table_are_refused() -> None:
    assert "model is not a table" in refusal("mymodel", options={"model.name": "x"})


def test_a_class_in_the_current_folder_is_an_agent(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (here / "deep/er/their_agent_9.py").write_text(
        "class Theirs:\n"
        "    name, version = 'theirs', '2'\n"
        "    def __init__(self, model=None, depth=1): self.model_name, self.depth = model, depth\n"
        "    async def run(self, run): ...\n"
        "    async def close(self): ...\n"
    )
    agent = create_agent("their_agent_9:Theirs", model="m", options={"depth": 3})
    assert (agent.name, agent.model_name, vars(agent)["depth"]) == ("theirs", "m", 3)
    assert agent_config("their_agent_9:Theirs", options={"depth": 3}) == {
        "name": "their_agent_9:Theirs",
        "type": "their_agent_9:Theirs",
        "depth": 3,
    }
    sys.modules.pop("their_agent_9")


@pytest.mark.case("H5")
def test_no_key_gets_into_what_records_keep(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "canary-value-1")
    (here / "harness.toml").write_text(
        '[agents.mine]\ntype = "tool_calling"\nmodel = "x"\napi_key_env = "MY_KEY"\n'
        'parameters = { extra = { api_key = "canary-value-2" } }\n'
    )
    text = json.dumps(agent_config("mine"))
    assert "canary" not in text and "MY_KEY" in text
    assert "canary" not in repr(create_agent("mine"))


@pytest.mark.parametrize("name", ["nop", "scripted"])
def test_making_an_agent_loads_no_sdk(name: str, here: Path) -> None:
    program = (
        "import sys\nfrom harness.agents.registry import create_agent, agent_names\nagent_names()\n"
        f"create_agent({name!r}, options={{'script': 'scripts/s.toml'}} if {name!r} == 'scripted' else {{}})\n"
        "assert 'openai' not in sys.modules and 'aiodocker' not in sys.modules"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], cwd=here, env={"PYTHONPATH": str(root)}, check=True, timeout=30)
