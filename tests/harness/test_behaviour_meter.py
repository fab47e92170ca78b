"""What a trajectory's numbers are: the spec's worked cases, and what may never be counted or guessed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trajectories import Pair, bash, call, edit, one_by_one, trajectory, turn

from harness.atif.model import ToolCall, Trajectory
from harness.atif.reader import load_trajectory
from harness.atif.writer import TrajectoryWriter
from harness.behaviour.combine import in_sequence
from harness.behaviour.meter import Meter, behaviour_of
from harness.records import Behaviour

FAILED = bash("pytest", "1 failed in 0.12s", 1)
HARBOR = Path(__file__).parent / "data" / "harbor-jobs"


def test_three_times_the_same_failure_without_an_edit_is_a_loop_of_three() -> None:
    found = behaviour_of(one_by_one(FAILED, FAILED, FAILED))
    assert (found.loops, found.longest_loop, found.looped_calls, found.repeated_failures) == (1, 3, 3, 2)


def test_failures_with_edits_in_between_are_no_loop_and_no_repetition() -> None:
    passed = bash("pytest", "1 passed", 0)
    found = behaviour_of(one_by_one(FAILED, edit("a.py"), FAILED, edit("b.py"), passed))
    assert (found.loops, found.longest_loop, found.looped_calls, found.repeated_failures) == (0, 0, 0, 0)


def test_a_circle_of_two_calls_with_the_same_results_is_a_loop() -> None:
    a, b = bash("make", "no rule", 2), bash("ls", "x")
    found = behaviour_of(one_by_one(a, b, a, b, a, b))
    assert (found.loops, found.longest_loop, found.looped_calls) == (1, 6, 6)


def test_a_circle_of_two_calls_with_other_results_each_time_is_none() -> None:
    pairs = [bash(command, f"row {n}") for n in range(3) for command in ("step", "look")]
    assert behaviour_of(one_by_one(*pairs)).loops == 0


def test_twenty_edits_of_twenty_files_are_no_loop() -> None:
    assert behaviour_of(one_by_one(*(edit(f"f{n}.py") for n in range(20)))).loops == 0


@pytest.mark.parametrize(
    ("pairs", "longest"),
    [
        ([bash("ls", "x")] * 5, 0),
        ([bash("ls", "x")] * 6, 6),
        ([bash("a"), bash("b"), bash("c")] * 2, 0),
        ([bash("a"), bash("b"), bash("c")] * 3, 9),
        ([FAILED] * 2, 0),
        ([FAILED, bash("pytest", "flaky", 0), FAILED, FAILED], 0),
        ([bash("x"), *[FAILED] * 4, bash("y")], 4),
        ([bash("make test", f"took 0.{n} s at 0x{n}f", 0) for n in range(6)], 6),
        ([bash("make test", f"{n} passed", 0) for n in range(6)], 0),
    ],
)
def test_what_is_a_loop(pairs: list[Pair], longest: int) -> None:
    assert behaviour_of(one_by_one(*pairs)).longest_loop == longest


def test_two_loops_are_counted_apart_and_no_call_twice() -> None:
    found = behaviour_of(one_by_one(*[FAILED] * 7, bash("ls"), *[bash("make", "", 2)] * 3))
    assert (found.loops, found.longest_loop, found.looped_calls) == (2, 7, 10)


def test_three_inspections_in_one_turn() -> None:
    found = behaviour_of(trajectory(turn(bash("pwd"), bash("ls"), bash("cat x"))))
    assert (found.turns, found.parallel_turns, found.parallel_calls) == (1, 1, 3)
    assert (found.parallel_inspections, found.early_inspections) == (3, 3)


def test_inspections_in_parallel_count_as_early_only_until_the_first_change() -> None:
    look = [call("read", {"path": "a"}), call("grep", {"pattern": "x"})]
    found = behaviour_of(trajectory(turn(*look), turn(look[0], edit("a"), look[1]), turn(*look)))
    assert (found.parallel_turns, found.parallel_calls, found.parallel_inspections) == (3, 7, 6)
    assert found.early_inspections == 3


def test_a_repetition_counts_only_after_its_failure_was_seen_and_while_nothing_else_may_have_changed() -> None:
    assert behaviour_of(trajectory(turn(FAILED, FAILED))).repeated_failures == 0
    seen = one_by_one(FAILED, bash("cat log"), FAILED)
    assert behaviour_of(seen).repeated_failures == 1
    changed = one_by_one(FAILED, bash("pip install x"), FAILED)
    assert behaviour_of(changed).repeated_failures == 0
    refused = one_by_one(FAILED, edit("a", error="no_unique_match"), FAILED)
    assert behaviour_of(refused).repeated_failures == 1


def test_timeouts_come_from_structured_facts_and_a_longer_deadline_is_still_the_same_call() -> None:
    slow = call("bash", {"command": "make"}, "", exit_code=124, timed_out=True)
    longer = call("bash", {"command": "make", "timeout_sec": 600}, "", exit_code=None, timed_out=True)
    found = behaviour_of(one_by_one(slow, longer, bash("echo exit code 124", "exit code 124; timed out")))
    assert (found.timeouts, found.timeout_retries, found.failed_calls, found.judged_calls) == (2, 1, 2, 3)


def test_the_error_rate_comes_from_exit_codes_never_from_text() -> None:
    found = behaviour_of(one_by_one(bash("cat log", "exit code: 137\nerror", 0), bash("false", "", 1), edit("a")))
    assert (found.judged_calls, found.failed_calls) == (3, 1)


def test_without_structured_facts_what_only_they_tell_is_unknown() -> None:
    pair = call("bash_command", {"keystrokes": "make\n"}, "exit code 1", told=False)
    found = behaviour_of(one_by_one(pair, pair))
    assert (found.tool_calls, found.judged_calls, found.loops) == (2, 0, 0)
    unknown = (found.failed_calls, found.invalid_calls, found.timeouts, found.timeout_retries, found.repeated_failures)
    assert unknown == (None,) * 5


def test_calls_refused_for_their_form_are_invalid_and_failed() -> None:
    found = behaviour_of(
        one_by_one(call("raed", {"path": "a"}, error="unknown_tool", fault="unknown_tool"), bash("ls"))
    )
    assert (found.invalid_calls, found.failed_calls, found.judged_calls) == (1, 1, 2)


@pytest.mark.parametrize(
    ("pair", "touches"),
    [
        (bash("cat /tests/*", "No such file", 1), 1),
        (bash("ls ../tests; ls ../../solution"), 1),
        (bash("python -c \"open('/logs/verifier/reward.txt', 'w')\""), 1),
        (call("read", {"path": "/tests/test_a.py"}), 1),
        (bash("pytest tests/ && ls /app/tests /tests2 ./tests"), 0),
        (call("write", {"path": "README.md", "content": "see /tests/test.sh"}), 0),
    ],
)
def test_naming_the_verifiers_files_is_a_touch(pair: Pair, touches: int) -> None:
    assert behaviour_of(one_by_one(pair)).test_touches == touches


@pytest.mark.case("B12")
@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("cd /app && git log --all --oneline | head", 1),
        ("git -C /app show 1a2b3c4d", 1),
        ("git --no-pager log -g", 1),
        ("git rev-list --branches='fix*'", 1),
        ("git log --all-match --grep a --grep b; git apply 1a2b3c4d.patch", 0),
        ("git fetch origin && git checkout -q FETCH_HEAD", 1),
        ("git reflog", 1),
        ("git cat-file -p deadbeef1", 1),
        ("git log -3 --stat; git show HEAD~1; git diff; git checkout -- a.py; git status", 0),
        ("sudo timeout 5 /usr/bin/git pull", 1),
        ("echo git log --all > notes", 0),
        ("grep -rn reflog docs", 0),
    ],
)
def test_looking_in_git_for_other_commits_is_counted(command: str, reads: int) -> None:
    assert behaviour_of(one_by_one(bash(command))).history_reads == reads


def test_background_commands_are_counted_once_each() -> None:
    assert behaviour_of(one_by_one(bash("nohup ./serve &"), bash("a & b &"), bash("a && b"))).background_calls == 2


def test_the_context_grows_from_first_to_last_and_every_cut_counts_once() -> None:
    cut = {"source": "system", "message": "cut", "extra": {"event": "compaction"}}
    steps = [turn(prompt=n) for n in (100, 900)]
    found = behaviour_of(trajectory(*steps, cut, turn(prompt=300), turn(prompt=800), turn(prompt=200)))
    assert (found.context_first, found.context_last, found.context_max, found.compactions) == (100, 200, 900, 2)
    assert behaviour_of(trajectory(turn())).compactions is None


def test_time_is_what_was_recorded_and_inspections_of_one_turn_run_side_by_side() -> None:
    look = [call("read", {"path": "a"}, duration_sec=2.0), call("ls", {}, duration_sec=3.0)]
    work = [bash("make", duration_sec=4.0), bash("make test", duration_sec=5.0)]
    found = behaviour_of(trajectory(turn(*look, model_sec=1.5), turn(*work, model_sec=0.5)))
    assert (found.model_sec, found.tool_sec) == (2.0, 12.0)
    helpers = [call("task", {"prompt": str(n)}, duration_sec=float(n)) for n in (2, 7)]
    assert behaviour_of(trajectory(turn(*helpers))).tool_sec == 7.0
    silent = behaviour_of(one_by_one(bash("ls")))
    assert (silent.model_sec, silent.tool_sec) == (None, None)


def test_copied_context_is_not_counted() -> None:
    copied = turn(FAILED, is_copied_context=True, prompt=900)
    assert behaviour_of(trajectory(copied, copied)) == behaviour_of(trajectory(copied))
    assert behaviour_of(trajectory(copied, turn(bash("ls"), prompt=10))).context_first == 10
    assert behaviour_of(trajectory(copied, turn(FAILED))).repeated_failures == 0


def test_embedded_subagents_count_as_calls_but_not_as_context_or_time() -> None:
    inner = trajectory(turn(FAILED, prompt=50, model_sec=9.0), turn(FAILED), turn(FAILED), trajectory_id="sub")
    outer = trajectory(turn(call("task", {"prompt": "x"}, duration_sec=10.0), prompt=7), subagents=[inner])
    found = behaviour_of(outer)
    assert (found.steps, found.tool_calls, found.subagents) == (4, 4, 1)
    assert (found.failed_calls, found.longest_loop, found.repeated_failures) == (3, 3, 2)
    assert (found.context_max, found.model_sec, found.tool_sec) == (7, None, 10.0)


def test_the_steps_of_a_task_add_up() -> None:
    first = behaviour_of(trajectory(turn(FAILED, prompt=5, model_sec=1.0), turn(FAILED), turn(FAILED)))
    second = behaviour_of(trajectory(turn(bash("ls"), prompt=3)))
    both = in_sequence(in_sequence(Behaviour(), first), second)
    assert (both.steps, both.tool_calls, both.failed_calls, both.longest_loop) == (4, 4, 3, 3)
    assert (both.context_first, both.context_last, both.context_max, both.model_sec) == (5, 3, 5, 1.0)


def test_a_record_of_an_older_harness_is_read_and_its_unknowns_stay_unknown() -> None:
    old = Behaviour.model_validate({"steps": 3, "tool_calls": 2})
    assert (old.steps, old.turns, old.failed_calls, old.loops) == (3, None, None, None)


def test_a_trajectory_of_harbor_has_what_it_tells_and_nothing_else() -> None:
    found = behaviour_of(load_trajectory(HARBOR / "term1" / "tt__c6ii2kd" / "agent" / "trajectory.json"))
    assert (found.steps, found.turns, found.tool_calls, found.failed_calls) == (4, 3, 3, None)
    assert (found.context_first, found.context_last, found.model_sec) == (3200, 4146, None)


def test_counting_while_writing_gives_what_reading_gives(tmp_path: Path) -> None:
    meter = Meter()
    writer = TrajectoryWriter(
        tmp_path / "t.json", session_id="s", agent_name="a", agent_version="1", model_name=None, watcher=meter
    )
    writer.user("do it")
    for number in range(3):
        writer.agent("", tool_calls=[ToolCall(tool_call_id="c", function_name="bash", arguments={"command": "make"})])
        if number < 2:
            writer.result("c", "no rule", extra={"exit_code": 2, "error": None})
    inner = writer.subagent("c", description="look")
    inner.agent("", tool_calls=[ToolCall(tool_call_id="d", function_name="bash", arguments={"command": "ls"})])
    inner.result("d", "x", extra={"exit_code": 0, "error": None})
    writer.subagent("c", description="never begins")
    writer.close()
    assert meter.result() == behaviour_of(load_trajectory(tmp_path / "t.json"))
    assert (meter.result().steps, meter.result().failed_calls, meter.result().judged_calls) == (5, 2, 3)
    assert meter.result().subagents == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["exit_code", "timed_out", "error", "duration_sec", "fault", "event", "raw_arguments"])
EXTRA = st.none() | st.dictionaries(KEYS, JSON, max_size=4)
NAMES = st.sampled_from(["bash", "read", "edit", "Bash", "memory", "", "finish"])
ARGUMENTS = st.dictionaries(st.sampled_from(["command", "path", "cmd", "x"]), JSON, max_size=3)


@st.composite
def hostile(draw: st.DrawFn) -> Trajectory:
    def step() -> dict[str, object]:
        pairs = [
            (
                {"function_name": draw(NAMES), "arguments": draw(ARGUMENTS), "extra": draw(EXTRA)},
                {"content": draw(st.none() | st.text(max_size=5)), "extra": draw(EXTRA)},
            )
            for _ in range(draw(st.integers(0, 3)))
        ]
        return turn(*pairs, prompt=draw(st.none() | st.integers(0, 99)), extra=draw(EXTRA))

    return trajectory(*(step() for _ in range(draw(st.integers(1, 5)))))


@settings(max_examples=40)
@given(hostile())
def test_any_trajectory_is_counted_and_parts_never_exceed_their_whole(recorded: Trajectory) -> None:
    found = behaviour_of(recorded)
    assert 0 <= (found.looped_calls or 0) <= found.tool_calls
    assert (found.parallel_inspections or 0) <= (found.parallel_calls or 0) <= found.tool_calls
    assert (found.early_inspections or 0) <= (found.parallel_inspections or 0)
    assert (found.timeouts or 0) <= (found.failed_calls or 0) <= (found.judged_calls or 0) <= found.tool_calls
    assert (found.timeout_retries or 0) <= (found.repeated_failures or 0)


def long_trajectory(steps: int) -> Trajectory:
    """Steps as a coding agent makes them: long results, some parallel, some failures."""
    output = "some line of output\n" * 400
    work = [
        turn(bash("cd /app && grep -rn 'def main' src | head -20", output), call("read", {"path": f"f{n}"}, output))
        if n % 3
        else turn(bash(f"python -m pytest tests/test_{n % 5}.py 2>&1 | tail -40", output, n % 2, duration_sec=1.0))
        for n in range(steps)
    ]
    return trajectory(*work)


def test_two_hundred_steps_cost_a_few_milliseconds() -> None:
    recorded = long_trajectory(200)
    best = min(_seconds(recorded) for _ in range(5))
    print(f"\nbehaviour of 200 steps: {1000 * best:.2f} ms")
    assert best < 0.1, "a tenth of it on a machine that does nothing else"


def _seconds(recorded: Trajectory) -> float:
    started = time.process_time()
    behaviour_of(recorded)
    return time.process_time() - started


def test_the_cost_grows_with_the_number_of_steps_and_no_faster() -> None:
    short, long = long_trajectory(100), long_trajectory(1600)
    assert min(_seconds(long) for _ in range(3)) < 40 * max(1e-4, min(_seconds(short) for _ in range(3)))
