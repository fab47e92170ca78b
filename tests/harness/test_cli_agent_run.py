"""A program in a real sandbox as the agent: it reaches its model, its budget ends it, and its end is told right."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from agent_runs import make_run, say
from chat_program import PROGRAM
from model_server import ModelServer, completion, failure, serving
from policy_server import Policy

from backends.lifecycle import open_sandbox
from backends.protocol import SandboxBackendProtocol
from backends.registry import create_provider
from backends.spec import NetworkMode, SandboxSpec
from harness.agents.protocol import AgentResult, AgentRun
from harness.agents.registry import create_agent
from harness.agents.session import Session
from harness.atif.model import Trajectory
from harness.atif.reader import findings, load_trajectory
from harness.errors import AgentSetupError, ModelError, ModelRejected, TaskUnsupported
from harness.failures import AgentStop
from harness.store.rollout import RolloutReader
from harness.task.interaction import Interaction

GOOD = "work(); print(json.dumps({'end': 'good'}))"
STUBBORN = """
while True:
    try:
        messages[1:] = []
        ask()
    except urllib.error.HTTPError:
        time.sleep(0.05)
"""
ENDS = [{"stop": "finished", "when": {"end": "good"}}, {"stop": "stuck", "when": {"end": "stuck"}, "detail": "why"}]

Box = Callable[..., Awaitable[SandboxBackendProtocol]]


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Box]:
    """Starts local sandboxes, with the network unless told otherwise."""
    provider = create_provider("local")
    ready = await provider.check()
    if not ready.works:
        pytest.skip(f"no isolation here: {ready.detail}")
    build = tmp_path / "environment"
    build.mkdir()
    (build / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")
    async with AsyncExitStack() as stack:

        async def start(network: NetworkMode = NetworkMode.FULL) -> SandboxBackendProtocol:
            return await stack.enter_async_context(
                open_sandbox(provider, SandboxSpec(build_dir=build, network=network))
            )

        yield start
    await provider.close()


class Played:
    """What a run left."""

    def __init__(self, run: AgentRun, result: AgentResult) -> None:
        self.run = run
        self.result = result
        self.logs = run.logs_dir

    @property
    def trajectory(self) -> Trajectory:
        return load_trajectory(self.run.trajectory.path)


async def play(
    folder: Path, sandbox: SandboxBackendProtocol, program: str, *, run: dict[str, Any] | None = None, **options: Any
) -> Played:
    """Run a program of our own as the agent."""
    settings = {
        "version": "1",
        "dialect": "chat",
        "command": 'python3 -c "$PROGRAM"',
        "env": {"API_BASE": "{base_url}", "API_KEY": "{key}", "PROGRAM": PROGRAM + program},
        "ends": ENDS,
        "ending_sec": 0.3,
        "model": "m",
        "max_retries": 0,
        **options,
    }
    folder.mkdir(exist_ok=True)
    agent = create_agent("cli", options=settings)
    made = make_run(folder, sandbox, **(run or {}))
    try:
        return Played(made, await agent.run(made))
    finally:
        made.trajectory.close()
        made.rollout.close()
        await agent.close()


def greeting(*, call: str = "echo hi > /app/greeting; cat /app/greeting") -> Policy:
    return Policy([("Writing.", [("c1", "bash", json.dumps({"command": call}))]), ("Done.", [])])


@pytest.mark.parametrize("network", [NetworkMode.FULL, NetworkMode.NONE])
async def test_a_program_acts_and_every_answer_is_recorded_with_its_tokens(
    box: Box, tmp_path: Path, network: NetworkMode
) -> None:
    if network is NetworkMode.NONE and not shutil.which("perl"):
        pytest.skip("no perl here")
    policy = greeting()
    async with serving(policy) as endpoint:
        sandbox = await box(network)
        played = await play(tmp_path, sandbox, GOOD, base_url=endpoint.url, capture=True)
        assert await sandbox.read("/app/greeting") == b"hi\n"
    assert (played.result.stop, played.result.metadata["exit_code"]) == (AgentStop.FINISHED, 0)
    steps = played.trajectory.steps
    assert [(each.source, each.message) for each in steps] == [
        ("user", "Do it."),
        ("agent", "Writing."),
        ("agent", "Done."),
    ]
    assert findings(played.trajectory) == []
    assert steps[1].observation is not None and steps[1].observation.results[0].content == "hi\n"
    calls = list(RolloutReader(played.run.rollout.path))
    assert [(list(c.prompt_ids or ()), list(c.completion_ids or ())) for c in calls] == [
        (p, s) for p, s, _ in policy.sampled
    ]


async def test_a_program_that_never_gives_up_is_cut_once_its_budget_is_spent(box: Box, tmp_path: Path) -> None:
    async with serving(completion("again", usage={"prompt_tokens": 3, "completion_tokens": 2})) as endpoint:
        started = time.monotonic()
        played = await play(tmp_path, await box(), STUBBORN, base_url=endpoint.url, max_turns=4)
    assert played.result.stop is AgentStop.MAX_TURNS
    assert played.result.detail == "all 4 requests to the model used; the program did not end by itself"
    assert len(endpoint.requests) == 4
    assert time.monotonic() - started < 20


async def test_a_budget_of_tokens_ends_a_program_that_ends_by_itself(box: Box, tmp_path: Path) -> None:
    program = "\nwhile True:\n    messages[1:] = []\n    ask()\n"
    async with serving(completion("again", usage={"prompt_tokens": 30, "completion_tokens": 20})) as endpoint:
        played = await play(tmp_path, await box(), program, base_url=endpoint.url, token_budget=100)
    assert (played.result.stop, played.result.detail) == (AgentStop.TOKEN_BUDGET, "100 of 100 tokens used")
    assert played.result.metadata["exit_code"] == 1


async def test_the_models_failure_is_not_the_programs(box: Box, tmp_path: Path) -> None:
    async with serving(failure(500)) as endpoint:
        with pytest.raises(ModelError):
            await play(tmp_path, await box(), STUBBORN, base_url=endpoint.url)


async def test_a_program_that_never_asks_its_model_was_not_set_up(box: Box, tmp_path: Path) -> None:
    async with serving(completion("x")) as endpoint:
        with pytest.raises(AgentSetupError, match=r"exit code 3\) without one answer of its model: no such option"):
            await play(
                tmp_path, await box(), "sys.stderr.write('no such option\\n'); sys.exit(3)", base_url=endpoint.url
            )


async def test_what_the_endpoint_answered_last_is_why_a_program_gave_up(box: Box, tmp_path: Path) -> None:
    full = failure(400, "maximum context length exceeded", code="context_length_exceeded")
    async with serving(full) as endpoint:
        played = await play(tmp_path / "1", await box(), "ask()", base_url=endpoint.url)
    assert played.result.stop is AgentStop.CONTEXT_OVERFLOW
    async with serving(completion("x"), failure(400, "no such parameter")) as endpoint:
        with pytest.raises(ModelRejected, match="no such parameter"):
            await play(tmp_path / "2", await box(), "ask(); messages[1:] = []; ask()", base_url=endpoint.url)


async def test_an_exit_code_of_0_is_not_believed_where_the_result_tells_otherwise(box: Box, tmp_path: Path) -> None:
    async with serving(completion("x")) as endpoint:
        stuck = await play(
            tmp_path / "1", await box(), 'ask(); print(\'{"end": "stuck", "why": "a loop"}\')', base_url=endpoint.url
        )
        silent = await play(tmp_path / "2", await box(), "ask()", base_url=endpoint.url)
        plain = await play(tmp_path / "3", await box(), "ask()", base_url=endpoint.url, ends=[])
    assert (stuck.result.stop, stuck.result.detail) == (AgentStop.STUCK, "a loop")
    assert (silent.result.stop, silent.result.detail) == (AgentStop.EXITED, "exit code 0: it said nothing")
    assert plain.result.stop is AgentStop.FINISHED


async def test_a_program_is_ended_at_its_deadline_and_what_it_said_is_kept(box: Box, tmp_path: Path) -> None:
    async with serving(completion("x")) as endpoint:
        program = "ask(); print('still here', flush=True); time.sleep(60)"
        played = await play(tmp_path, await box(), program, base_url=endpoint.url, run={"timeout_sec": 5.0})
    assert played.result.stop is AgentStop.TIMEOUT
    assert (played.logs / "stdout.txt").read_text() == "still here\n"


async def test_a_cancelled_run_leaves_no_process(box: Box, tmp_path: Path) -> None:
    sandbox = await box()
    async with serving(completion("x")) as endpoint:
        work = asyncio.create_task(play(tmp_path, sandbox, "ask(); time.sleep(4321)", base_url=endpoint.url))
        while not endpoint.requests:
            await asyncio.sleep(0.02)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    left = await sandbox.execute("grep -l [4]321 /proc/[0-9]*/cmdline 2>/dev/null | grep -v self", timeout=10)
    assert left.stdout == b""


@pytest.mark.case("H4")
async def test_the_key_stands_in_nothing_that_the_program_said(box: Box, tmp_path: Path) -> None:
    async with serving(greeting(call="env | grep API_KEY")) as endpoint:
        sandbox = await box()
        program = "work(); print(os.environ['API_KEY']); sys.stderr.write(os.environ['API_KEY'] + '\\n')"
        played = await play(tmp_path, sandbox, program, base_url=endpoint.url, ends=[])
    assert played.result.stop is AgentStop.FINISHED
    for name in ("stdout.txt", "stderr.txt"):
        assert (played.logs / name).read_text() == "[redacted]\n"


async def test_parallel_runs_share_a_proxy_and_each_has_a_key_of_its_own(box: Box, tmp_path: Path) -> None:
    async with serving(completion("x")) as endpoint:
        program = "ask(); print(os.environ['API_BASE'])"
        agent_options = {"base_url": endpoint.url, "ends": []}
        runs = [play(tmp_path / str(n), await box(), program, **agent_options) for n in range(2)]
        first, second = await asyncio.gather(*runs)
    assert first.result.stop is second.result.stop is AgentStop.FINISHED
    assert (first.logs / "stdout.txt").read_text() != (second.logs / "stdout.txt").read_text()


async def test_a_scripted_model_answers_in_place_of_an_endpoint(box: Box, tmp_path: Path) -> None:
    script = tmp_path / "replies.json"
    script.write_text(json.dumps({"replies": [say("", ("bash", {"command": "echo hi > /app/x"})), say("Done.")]}))
    sandbox = await box()
    played = await play(tmp_path / "run", sandbox, GOOD, script=str(script))
    assert played.result.stop is AgentStop.FINISHED
    assert await sandbox.read("/app/x") == b"hi\n"


async def test_the_task_s_standing_instructions_memory_and_skills_are_told(box: Box, tmp_path: Path) -> None:
    interaction = Interaction(system_prompt="Be brief.", memory_dir="/memory", skills_dir="/skills")
    sandbox = await box()
    await sandbox.execute("mkdir -p /app/skills/x && echo s > /app/skills/x/SKILL.md", timeout=10)
    linked = Interaction(skills_dir="/app/skills")
    async with serving(completion("x")) as endpoint:
        told = await play(
            tmp_path / "1", sandbox, "ask()", base_url=endpoint.url, run={"session": Session(interaction=interaction)}
        )
        program = "ask(); print(open('/app/place/x/SKILL.md').read())"
        run = {"session": Session(interaction=linked)}
        found = await play(tmp_path / "2", sandbox, program, base_url=endpoint.url, run=run, skills="/app/place")
    message = str(told.trajectory.steps[0].message)
    assert message.startswith("Be brief.\n\nDo it.") and "/memory" in message and "/skills/*/SKILL.md" in message
    assert "SKILL.md" not in str(found.trajectory.steps[0].message)
    assert (found.logs / "stdout.txt").read_text() == "s\n\n"


async def test_several_endpoints_share_the_requests(box: Box, tmp_path: Path) -> None:
    async with serving(completion("x")) as one, serving(completion("x")) as two:
        program = "\nfor _ in range(3): ask()\n"
        played = await play(tmp_path, await box(), program, upstreams={one.url: 1, two.url: 1}, ends=[])
    assert played.result.stop is AgentStop.FINISHED
    assert len(requests_of(one)) + len(requests_of(two)) == 3


def requests_of(endpoint: ModelServer) -> list[dict[str, Any]]:
    return [each for each in endpoint.requests if "messages" in each]


TALK = """
import pathlib
kept = pathlib.Path("/app/talk.json")
if os.environ.get("CONTINUED"):
    messages[:0] = json.loads(kept.read_text())
work(); kept.write_text(json.dumps(messages)); print(json.dumps({"end": "good"}))
"""


async def test_what_the_user_says_next_goes_on_with_the_conversation(box: Box, tmp_path: Path) -> None:
    session = Session(interaction=Interaction(turns=("And now?", "Sure?")))
    policy = Policy([(text, []) for text in ("One.", "Two.", "Three.")])
    async with serving(policy) as endpoint:
        played = await play(
            tmp_path, await box(), TALK, base_url=endpoint.url, capture=True, continues=True, run={"session": session}
        )
    assert played.result.stop is AgentStop.FINISHED
    assert [(each.source, each.message) for each in played.trajectory.steps] == [
        ("user", "Do it."),
        ("agent", "One."),
        ("user", "And now?"),
        ("agent", "Two."),
        ("user", "Sure?"),
        ("agent", "Three."),
    ]
    assert session.turns == 2 and played.result.metadata["conversations"] == 1
    calls = RolloutReader(played.run.rollout.path)
    assert [list(each.completion_ids or ()) for each in calls] == [ids for _, ids, _ in policy.sampled]
    assert {each.name for each in played.logs.glob("stdout*")} == {"stdout.txt", "stdout-2.txt", "stdout-3.txt"}


async def test_the_steps_of_a_task_may_share_one_conversation(box: Box, tmp_path: Path) -> None:
    session = Session(interaction=Interaction(conversation="continue", system_prompt="Be brief."))
    sandbox = await box()
    async with serving(completion("One."), completion("Two.")) as endpoint:
        options = {"base_url": endpoint.url, "continues": True, "run": {"session": session}}
        await play(tmp_path / "1", sandbox, TALK, **options)
        second = await play(tmp_path / "2", sandbox, TALK, **options)
    assert second.result.stop is AgentStop.FINISHED
    assert [each["content"] for each in endpoint.requests[1]["messages"]] == ["Be brief.\n\nDo it.", "One.", "Do it."]
    steps = second.trajectory.steps
    assert [(each.message, each.is_copied_context) for each in steps if each.source == "agent"] == [
        ("One.", True),
        ("Two.", None),
    ]


async def test_turns_share_one_budget_and_one_that_asks_nothing_was_not_finished(box: Box, tmp_path: Path) -> None:
    told: dict[str, Any] = {"continues": True, "ends": []}
    async with serving(completion("x")) as endpoint:
        spent = await play(
            tmp_path / "1",
            await box(),
            TALK,
            base_url=endpoint.url,
            max_turns=1,
            run={"session": Session(interaction=Interaction(turns=("And now?",)))},
            **told,
        )
        silent = await play(
            tmp_path / "2",
            await box(),
            "\nif not os.environ.get('CONTINUED'): ask()\n",
            base_url=endpoint.url,
            run={"session": Session(interaction=Interaction(turns=("And now?",)))},
            **told,
        )
    assert spent.result.stop is AgentStop.MAX_TURNS
    assert (silent.result.stop, silent.result.detail) == (
        AgentStop.EXITED,
        "the program asked its model nothing any more",
    )


@pytest.mark.parametrize("wanted", [{"turns": ("And now?",)}, {"conversation": "continue"}])
async def test_a_task_that_needs_a_talk_is_refused_where_the_program_cannot_go_on(
    box: Box, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    session = Session(interaction=Interaction(**wanted))
    with pytest.raises(TaskUnsupported, match="cannot take part in"):
        await play(tmp_path, await box(), "ask()", base_url="http://127.0.0.1:1/v1", run={"session": session})
