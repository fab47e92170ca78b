"""`harness export` as a user meets it: from a run against a server that tells tokens to rows, chats and documents."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from command_line import Done, harness
from model_server import serving
from policy_server import Policy, prompt_of
from pyarrow import parquet
from rollouts import call, job_of

from harness.agents.tool_calling.record import record_answer
from harness.atif.reader import load_trajectory
from harness.atif.writer import TrajectoryWriter
from harness.cli.main import main
from harness.errors import UsageError
from harness.export.folder import export_folder, manifest_of, write_manifest
from harness.export.read import read_samples
from harness.export.rl import export_rl
from harness.failures import Outcome
from harness.llm.protocol import Reply
from harness.store.rollout import RolloutWriter

REPO = Path(__file__).parents[2]
HARBOR = Path(__file__).parent / "data" / "harbor-jobs" / "term1"


def export(*argv: str | Path) -> Done:
    """The command, in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["export", *map(str, argv)])
    return Done(code, out.getvalue(), err.getvalue())


GREETING = (
    ("I write the file.", [("c1", "bash", '{"command":"echo Hello, world! > /app/hello.txt; ls"}')]),
    ("", [("c2", "finish", "{}")]),
)


async def run_job(policy: Policy, folder: Path) -> Path:
    """A job of two attempts by the managed agent, in a process of its own."""
    config = folder / "harness.toml"
    async with serving(policy) as server:
        config.write_text(
            f'[agents.p]\ntype = "tool_calling"\nmodel = "m"\nbase_url = "{server.url}"\ncapture = true\n'
            "parameters = { temperature = 1.0 }\n"
        )
        argv = ["run", "--suite", "hello", "--include", "hello/greeting", "--agent", "p", "--backend", "local"]
        rest = ["--allow-unsafe-local", "--config", config, "-k", "2", "--jobs-dir", folder, "--name", "job"]
        done = await asyncio.to_thread(harness, *argv, *rest)
    assert done.code == 0, done.err
    return folder / "job"


@pytest.mark.slow
async def test_a_run_becomes_rows_of_exactly_what_was_sampled(tmp_path: Path) -> None:
    policy = Policy(GREETING, each_alone=True)
    job = await run_job(policy, tmp_path)
    done = export(job, "--to-rl", "-o", tmp_path / "rows")
    assert done.code == 0, done.err
    rows = list(read_samples(tmp_path / "rows"))
    wanted = sorted(tuple(ids) for _, ids, _ in policy.sampled)
    spans = [(row, span) for row in rows for span in row.spans if span.kind == "sampled"]
    assert sorted(tuple(row.token_ids[span.start : span.end]) for row, span in spans) == wanted
    assert [(row.n_branches, row.policy_versions, row.temperature) for row in rows] == [(1, ("step-7",), 1.0)] * 2
    assert len({row.group_id for row in rows}) == 1 and rows[0].group_size == 2
    assert export("--check", tmp_path / "rows").code == 0


@pytest.mark.slow
async def test_a_server_without_tokens_makes_chats_and_no_rows(tmp_path: Path) -> None:
    job = await run_job(Policy(GREETING, "text", each_alone=True), tmp_path)
    refused = export(job, "--to-rl", "-o", tmp_path / "rows")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "text only" in refused.err and "--to-sft" in refused.err and "--retokenize" in refused.err
    assert not (tmp_path / "rows").exists()
    assert export(job, "--to-sft", "-o", tmp_path / "chats", "--min-reward", "0").code == 0
    chats = [json.loads(line) for line in (tmp_path / "chats" / "chats.jsonl").read_text().splitlines()]
    roles = [message["role"] for message in chats[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert chats[0]["train"] == [role == "assistant" for role in roles]
    assert len(prompt_of(chats[0]["messages"])) > 100


def test_what_harbor_recorded_becomes_rows(tmp_path: Path) -> None:
    done = export(HARBOR, "--to-rl", "-o", tmp_path / "rows", "--format", "jsonl")
    assert done.code == 0, done.err
    rows = list(read_samples(tmp_path / "rows"))
    steps = [step for step in load_trajectory(HARBOR / "tt__c6ii2kd/agent/trajectory.json").steps if step.metrics]
    sampled = [step.metrics.completion_token_ids for step in steps if step.metrics]
    spans = [(row, span) for row in rows for span in row.spans if span.kind == "sampled"]
    assert [list(row.token_ids[span.start : span.end]) for row, span in spans] == sampled


def test_a_document_needs_no_other_file(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", [[]])
    agent = job / "t0000__1" / "agent"
    writer = TrajectoryWriter(
        agent / "trajectory.json", session_id="s", agent_name="a", agent_version="1", model_name="m"
    )
    rollout = RolloutWriter(agent / "rollout.bin")
    writer.user("hi")
    reply = Reply(content="x", prompt_token_ids=(1, 2), completion_token_ids=(7,), logprobs=(-0.5,))
    record_answer(writer, rollout, reply, [], sampling={}, extra={})
    writer.close()
    rollout.close()
    assert export(job, "--to-atif", "-o", tmp_path / "atif").code == 0
    metrics = load_trajectory(tmp_path / "atif" / "job" / "t0000__1.json").steps[1].metrics
    assert metrics is not None
    assert (metrics.prompt_token_ids, metrics.completion_token_ids, metrics.logprobs) == ([1, 2], [7], [-0.5])


def test_stats_add_up_and_write_nothing(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", [[call([1], [2])], [call([1], [3])], []], ends=[1.0, Outcome.INFRA_ERROR, 0.0])
    done = export(job, "--stats")
    assert done.code == 0
    numbers = {line.split("│")[0].strip(): line.split("│")[1].strip() for line in done.out.splitlines() if "│" in line}
    assert numbers == {"kept": "1", "masked": "2", "dropped": "0", "all": "3"}
    assert "sandbox unavailable" in done.out and "no model calls" in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["job"]


@pytest.mark.case("E8")
def test_a_check_names_the_row_that_contradicts_itself(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", [[call([1], [2])], [call([1], [3, 4])]])
    export_rl([job], tmp_path / "rows", file_format="jsonl")
    path = tmp_path / "rows" / "part-00000.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1]["loss_mask"] = [0, 1]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = export("--check", tmp_path / "rows")
    assert done.code == 2
    assert "job/t0000__2#0: columns differ in length: token_ids 3, loss_mask 2" in done.err


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("token_ids", pa.array([[1, 2, 3]], pa.list_(pa.int64())), "'token_ids' is not a list of int32"),
        ("token_ids", pa.array([["a"]]), "'token_ids' is not a list of int32"),
        ("token_ids", pa.array([[1, None, 3]], pa.list_(pa.int32())), "'token_ids' is not a list of int32"),
        ("loss_mask", pa.array([None], pa.list_(pa.int8())), "'loss_mask' is not a list of int8"),
        ("rollout_weight", pa.array([None], pa.float32()), "a value is of another kind"),
        ("spans", None, "no column 'spans'"),
    ],
)
def test_a_check_names_the_column_that_is_not_what_it_should_be(
    tmp_path: Path, column: str, values: pa.Array | None, says: str
) -> None:
    data = tmp_path / "data"
    export_rl([job_of(tmp_path / "job", [[call([1, 2], [3])]])], data)
    assert export("--check", data).code == 0
    shard = data / "part-00000.parquet"
    table = parquet.read_table(shard)
    place = table.schema.get_field_index(column)
    parquet.write_table(table.drop([column]) if values is None else table.set_column(place, column, values), shard)
    done = export("--check", data)
    assert done.code == 2 and says in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "line", [b"[]", b"null", b"{", b"\xff\xfe", b'{"schema_version": 1}', b'{"schema_version": 2}']
)
def test_a_check_names_the_line_that_is_no_row(tmp_path: Path, line: bytes) -> None:
    data = tmp_path / "data"
    export_rl([job_of(tmp_path / "job", [[call([1, 2], [3])]])], data, file_format="jsonl")
    with (data / "part-00000.jsonl").open("ab") as file:
        file.write(line + b"\n")
    done = export("--check", data)
    assert done.code == 2 and "part-00000.jsonl:2 is not a row: " in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("files", [None, 3, [3], ["part-00000.parquet"]])
def test_a_check_names_a_manifest_that_names_no_files(tmp_path: Path, files: object) -> None:
    write_manifest(tmp_path, {"kind": "rl", "files": files})
    done = export("--check", tmp_path)
    assert done.code == 2 and "export.json does not name the export's files" in done.err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((), "name the jobs to export"),
        (("nowhere", "--to-rl", "-o", "x"), "nowhere is not a folder"),
        ((".", "--to-rl", "-o", "x"), "no trials in these folders"),
        ((".", "--to-rl", "--to-sft", "-o", "x"), "choose one of"),
        ((".",), "choose one of"),
        ((".", "--to-rl"), "say where to write: -o FOLDER"),
        (("--check", "."), ". is not an export made by --to-rl"),
        (("--check", ".", "--stats"), "goes with no other option"),
    ],
)
def test_a_request_that_cannot_be_is_one_line(tmp_path: Path, argv: tuple[str, ...], says: str) -> None:
    with chdir(tmp_path):
        done = export(*argv)
    assert (done.code, done.err.count("\n")) == (2, 1) and says in done.err


KILLED_EXPORT = """
import os, signal, sys
from pathlib import Path
from harness.export.folder import export_folder, write_manifest

moment, target = sys.argv[1], Path(sys.argv[2])
rename = Path.rename

def killed_before_the_new_one_is_there(path, to):
    if to == target:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, to)

Path.rename = killed_before_the_new_one_is_there
with export_folder(target) as draft:
    write_manifest(draft, {"kind": "new"})
    if moment == "waits":
        print("waits", flush=True)
        sys.stdin.read()
    if moment == "writing":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def start_export(moment: str, target: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", KILLED_EXPORT, moment, str(target)]
    return subprocess.Popen(argv, cwd=REPO, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize("moment", ["writing", "replacing"])
def test_what_a_killed_export_left_is_ended_by_the_next_which_may_fail(tmp_path: Path, moment: str) -> None:
    target = tmp_path / "data"
    with export_folder(target) as draft:
        write_manifest(draft, {"kind": "old"})
    with start_export(moment, target) as process:
        assert process.wait(60) == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == (1 if moment == "replacing" else 2), "something was left"
    with pytest.raises(UsageError, match="nothing to write"), export_folder(target):
        raise UsageError("nothing to write")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert manifest_of(target) == {"format": "harness-export", "kind": "old"}


def test_an_export_leaves_the_draft_of_one_that_runs_alone(tmp_path: Path) -> None:
    target = tmp_path / "data"
    with start_export("waits", target) as process:
        assert process.stdout is not None and process.stdout.readline() == "waits\n"
        (draft,) = tmp_path.iterdir()
        with export_folder(target) as other:
            write_manifest(other, {"kind": "old"})
        assert set(tmp_path.iterdir()) == {draft, target}
        process.kill()
