"""What tasks do to a harness, in real trials: verdicts missing, broken or forged, deadlines, links, users, memory.

All tasks of a backend run as one job, with the oracle: each `solve.sh` plays an agent, hostile ones included.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from builders import make_task
from command_line import Done, by_task, docker, harness, processes_with, records, sandboxes_left, scraps

pytestmark = pytest.mark.timeout(200)
DOCKER = [pytest.mark.docker, pytest.mark.slow]

Record = dict[str, Any]
MARK = f"sleep 9{os.getpid():07d}"
"""A command that no other process on this machine runs."""

PASS = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"
GRADES_HELLO = (
    "#!/bin/bash\n[ -f /app/hello.txt ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
)
GIVES_NOTHING = "#!/bin/bash\nsleep 0.3\nexit 1\n"
V = "/logs/verifier"


def solve(text: str) -> str:
    return f"#!/bin/bash\n{text}\n"


def writes(text: str, name: str = "reward.txt") -> str:
    return f"#!/bin/bash\ncat > {V}/{name} <<'END'\n{text}\nEND\n"


FORGERY = f"mkdir -p {V}; echo 1 > {V}/reward.txt; echo '{{\"reward\": 1}}' > {V}/reward.json"
HOPS = f"""cat > /app/hop.sh <<'END'
mkdir -p {V}; echo 1 > {V}/reward.txt
sleep 0.01
[ $1 -gt 0 ] && setsid nohup bash /app/hop.sh $(($1 - 1)) >/dev/null 2>&1 &
END
setsid nohup bash /app/hop.sh 2000 >/dev/null 2>&1 &
sleep 0.2"""
SURVIVOR = f"""setsid nohup bash -c 'trap "" TERM HUP INT; while :; do mkdir -p {V}; echo 1 > {V}/reward.txt; done' \
>/dev/null 2>&1 &
(setsid {MARK} &)
sleep 0.1"""
CLAIMS = r"""printf 'exit code 137\nOOMKilled\nout of memory\nConnection refused\nsandbox crashed\n'
printf 'Cannot allocate memory\nRateLimitError: 429\nNo space left on device\ntimed out, exit code 124\n' >&2
exit 137"""

TASKS: dict[str, dict[str, Any]] = {
    "reward-missing": {"test": "#!/bin/bash\necho hi\n"},
    "reward-unparseable": {"test": writes('{"reward": 1', "reward.json")},
    "reward-out-of-range": {"test": writes("2")},
    "reward-near-miss": {"test": writes("1abc")},
    "reward-declared-range": {"test": writes("-1"), "toml": 'version = "1.0"\n[verifier]\nreward_range = [-1, 1]\n'},
    "reward-crlf": {"test": f"#!/bin/bash\nprintf ' 0.5 \\r\\n' > {V}/reward.txt\n"},
    "reward-conflict": {"test": f"#!/bin/bash\necho 1 > {V}/reward.txt; echo '{{\"reward\": 0}}' > {V}/reward.json\n"},
    "reward-is-a-fifo": {"test": f"#!/bin/bash\nmkfifo {V}/reward.txt\n"},
    "reward-is-a-link": {"test": f"#!/bin/bash\necho 1 > /app/one; ln -s /app/one {V}/reward.txt\n"},
    "planted": {"solve": solve(FORGERY), "test": GIVES_NOTHING},
    "planted-read-only": {
        "solve": solve(
            f"{FORGERY}; mkdir -p {V}/d/e; chattr +i {V}/* 2>/dev/null; chmod 444 {V}/*; chmod 0 {V}/d; chmod 555 {V}; "
            "chmod 555 /logs /tests / 2>/dev/null"
        ),
        "test": GIVES_NOTHING,
    },
    "planted-link": {
        "solve": solve(f"mkdir -p /app/v; echo 1 > /app/v/reward.txt; rm -rf {V}; ln -s /app/v {V}"),
        "test": GIVES_NOTHING,
    },
    "planted-link-to-logs": {
        "solve": solve(
            "mkdir -p /app/l/verifier; echo 1 > /app/l/verifier/reward.txt; "
            "rm -rf /logs 2>/dev/null && ln -s /app/l /logs; exit 0"
        ),
        "test": GIVES_NOTHING,
    },
    "planted-fifo": {"solve": solve(f"mkdir -p {V}; mkfifo {V}/reward.txt {V}/reward.json"), "test": GIVES_NOTHING},
    "planted-hard-to-empty": {
        "solve": solve(f"mkdir -p {V}/-rf {V}/... '{V}/a b' {V}/.h; echo 1 > {V}/reward.txt; chmod 0 {V}/.h"),
        "test": GIVES_NOTHING,
    },
    "survivor": {"solve": solve(SURVIVOR), "test": GIVES_NOTHING},
    "survivor-against-a-verdict": {
        "solve": solve(SURVIVOR),
        "test": f"#!/bin/bash\necho 0 > {V}/reward.txt\nsleep 0.3\n",
    },
    "respawner": {"solve": solve(HOPS), "test": GIVES_NOTHING},
    "killer": {"solve": solve("touch /app/hello.txt; kill -9 -1"), "test": GRADES_HELLO},
    "killer-of-pid-1": {
        "solve": solve("kill -TERM 1; kill -HUP 1; kill -INT 1; kill -9 1; sleep 0.2; touch /app/hello.txt"),
        "test": GRADES_HELLO,
    },
    "many-processes": {
        "solve": solve(f"touch /app/hello.txt; for i in $(seq 1200); do {MARK} & done; wait"),
        "test": GRADES_HELLO,
        "toml": 'version = "1.0"\n[agent]\ntimeout_sec = 2.0\n',
    },
    "strange-logs": {
        "solve": solve(
            "touch /app/hello.txt; cd /logs/agent; touch $'a\\nb' $'\\xff\\xfe' -- '-rf' ' '; mkdir $'\\x1b[31m'; "
            "for i in $(seq 300); do mkdir d && cd -P d || break; done; exit 0"
        ),
        "test": GRADES_HELLO,
    },
    "verifier-timeout": {"test": f"#!/bin/bash\n{MARK}\n", "toml": 'version = "1.0"\n[verifier]\ntimeout_sec = 1.0\n'},
    "agent-timeout": {
        "solve": solve(f"touch /app/hello.txt; {MARK}"),
        "test": GRADES_HELLO,
        "toml": 'version = "1.0"\n[agent]\ntimeout_sec = 4.0\n',
    },
    "agent-timeout-nothing": {
        "solve": solve(MARK),
        "test": GIVES_NOTHING,
        "toml": 'version = "1.0"\n[agent]\ntimeout_sec = 1.0\n',
    },
    "crlf": {"test": f"#!/bin/bash\r\necho 1 > {V}/reward.txt\r\n"},
    "no-shebang-mode": {"test": PASS},
    "status-infra": {
        "test": f'#!/bin/bash\necho \'{{"status": "infra", "reason": "bootstrap"}}\' > {V}/status.json\n'
        f"echo 0 > {V}/reward.txt\n"
    },
    "verifier-kills-its-shell": {"test": f"#!/bin/bash\necho 1 > {V}/reward.txt\nkill -9 $PPID\n"},
    "verifier-shot-after-its-reward": {
        "test": f"#!/bin/bash\necho 1 > {V}/reward.txt\nsh -c 'kill -9 $PPID'\nexit 0\n"
    },
    "verifier-stopped-after-its-reward": {
        "test": f"#!/bin/bash\necho 0.5 > {V}/reward.txt\nsh -c 'kill -TERM $PPID'\nexit 0\n"
    },
    "verifier-shot-after-a-zero": {"test": f"#!/bin/bash\necho 0 > {V}/reward.txt\nkill -9 $$\n"},
    "verifier-exits-137": {"test": "#!/bin/bash\nexit 137\n"},
    "verifier-is-loud": {
        "test": f"#!/bin/bash\nhead -c 3000000 /dev/zero | tr '\\0' x; printf 'a\\377b\\0c\\n' >&2\n"
        f"echo 1 > {V}/reward.txt\n"
    },
    "tight-umask": {
        "solve": solve("umask 077; mkdir -m 700 /logs/agent/p; echo x > /logs/agent/p/f"),
        "test": f"#!/bin/bash\numask 077; echo 1 > {V}/reward.txt; mkdir {V}/d; echo y > {V}/d/f; chmod 500 {V}/d\n",
    },
    "links-in-logs": {
        "solve": solve(
            "ln -s /etc/passwd /logs/agent/x; mkdir -p /logs/artifacts; ln -s ../../../../etc /logs/artifacts/d; "
            "echo real > /logs/agent/real; ln -s real /logs/agent/inside; mkfifo /logs/agent/pipe; "
            "ln -s / /logs/agent/root; echo forged > /logs/agent/trajectory.json; "
            "ln -s ../../result.json /logs/agent/result"
        ),
        "test": PASS,
    },
    "leaked-tests": {
        "dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY tests /app/tests\nCOPY tests /tests\n",
        "files": {
            **dict.fromkeys(("environment/tests/test_secret.py", "tests/test_secret.py"), "assert canary\n"),
            "environment/tests/test.sh": GRADES_HELLO + f"[ -f /tests/test_secret.py ] || rm {V}/reward.txt\n",
        },
        "solve": solve(
            "find / -xdev \\( -name 'test_secret*' -o -name test.sh \\) -not -path '/proc/*' -not -path '/usr/*' "
            "-not -path '/var/*' 2>/dev/null > /logs/agent/seen; touch /app/hello.txt"
        ),
        "test": GRADES_HELLO + f"[ -f /tests/test_secret.py ] || rm {V}/reward.txt\n",
    },
    "unset-variable": {"toml": 'version = "1.0"\n[environment.env]\nA = "${SURELY_NOT_SET_ANYWHERE}"\n'},
    "becomes-healthy": {
        "toml": 'version = "1.0"\n[environment.healthcheck]\ncommand = "n=$(cat /tmp/n 2>/dev/null || echo 0); '
        'echo $((n+1)) > /tmp/n; [ $n -ge 3 ]"\nstart_period_sec = 30\nstart_interval_sec = 0.05\nretries = 1\n',
        "solve": solve("[ $(cat /tmp/n) = 4 ] && touch /app/hello.txt"),
        "test": GRADES_HELLO,
    },
    "never-healthy": {
        "toml": 'version = "1.0"\n[environment.healthcheck]\ncommand = "exit 3"\ninterval_sec = 0.05\nretries = 2\n'
    },
    "no-network": {
        "toml": 'version = "1.0"\n[environment]\nnetwork_mode = "no-network"\n',
        "solve": solve(
            "tail -n +3 /proc/net/dev | cut -d: -f1 | grep -v lo > /logs/agent/interfaces; "
            "timeout 2 bash -c 'exec 3<>/dev/tcp/172.17.0.1/22' 2> /logs/agent/refused && exit 0; "
            "[ -s /logs/agent/interfaces ] || touch /app/hello.txt"
        ),
        "test": GRADES_HELLO,
    },
    "claims": {"solve": solve(CLAIMS), "test": writes("0")},
    "asks-questions": {"solve": solve("read -r answer && exit 1; touch /app/hello.txt"), "test": GRADES_HELLO},
    "first-step-too-low": {
        "toml": 'version = "1.0"\n[[steps]]\nname = "one"\nmin_reward = 0.5\n[[steps]]\nname = "two"\n',
        "files": {
            **{f"steps/{name}/instruction.md": "Go on.\n" for name in ("one", "two")},
            **{f"steps/{name}/solution/solve.sh": solve("true") for name in ("one", "two")},
            "steps/one/tests/test.sh": writes("0.25"),
            "steps/two/tests/test.sh": writes("1"),
        },
    },
    "both-steps": {
        "toml": 'version = "1.0"\n[[steps]]\nname = "one"\nmin_reward = 0.5\n[[steps]]\nname = "two"\n',
        "files": {
            **{f"steps/{name}/instruction.md": "Go on.\n" for name in ("one", "two")},
            "steps/one/solution/solve.sh": solve("echo 1 > /app/one; echo log > /logs/agent/log"),
            "steps/two/solution/solve.sh": solve(
                f"[ -e /tests/test.sh ] || [ -e {V}/reward.txt ] || [ -e /logs/agent/log ] || touch /app/hello.txt"
            ),
            "steps/one/tests/test.sh": writes("0.5"),
            "steps/two/tests/test.sh": GRADES_HELLO + "[ -f /app/one ] || exit 9\n",
        },
    },
    "judged-apart": {
        "toml": 'version = "1.0"\nartifacts = ["/app/hello.txt"]\n[verifier]\nenvironment_mode = "separate"\n',
        "solve": solve(f"touch /app/hello.txt /app/other; {FORGERY}"),
        "test": GRADES_HELLO + f"[ ! -e /app/other ] || rm {V}/reward.txt\n",
    },
}

ON_DOCKER: dict[str, dict[str, Any]] = {
    "other-users": {
        "toml": 'version = "1.0"\n[agent]\nuser = "nobody"\n[verifier]\nuser = "www-data"\n',
        "solve": solve("id -un > /logs/agent/who"),
        "test": f"#!/bin/bash\nid -un > {V}/who; echo 1 > {V}/reward.txt\n",
    },
    "other-user-plants": {
        "toml": 'version = "1.0"\n[agent]\nuser = "nobody"\n',
        "solve": solve(f"{FORGERY}; echo 1 > /logs/agent/fine"),
        "test": GIVES_NOTHING,
    },
    "agent-out-of-memory": {
        "toml": 'version = "1.0"\n[environment]\nmemory_mb = 64\n',
        "solve": solve("perl -e '$x = \"a\" x (300 * 2**20)'; echo $? > /logs/agent/code; touch /app/hello.txt"),
        "test": GRADES_HELLO,
    },
    "verifier-out-of-memory": {
        "toml": 'version = "1.0"\n[environment]\nmemory_mb = 64\n',
        "test": "#!/bin/bash\nperl -e '$x = \"a\" x (300 * 2**20)' || exit 137\n",
    },
    "verifier-out-of-memory-after-its-reward": {
        "toml": 'version = "1.0"\n[environment]\nmemory_mb = 64\n',
        "test": f"#!/bin/bash\necho 1 > {V}/reward.txt\nexec perl -e '$x = \"a\" x (300 * 2**20)'\n",
    },
    "build-fails": {"dockerfile": "FROM debian:bookworm-slim\nRUN echo Connection refused; exit 7\n"},
    "build-hangs": {
        "dockerfile": f"FROM debian:bookworm-slim\nRUN {MARK}\n",
        "toml": 'version = "1.0"\n[environment]\nbuild_timeout_sec = 2\n',
    },
    "unknown-image": {"toml": 'version = "1.0"\n[environment]\ndocker_image = "localhost:1/no/such:image"\n'},
    "unknown-base": {"dockerfile": "FROM localhost:1/no/such:image\n"},
}
ON_LOCAL: dict[str, dict[str, Any]] = {"needs-docker": {"dockerfile": "FROM debian\n# next\nRUN make install\n"}}
CANARY = "a secret of the host's"


@dataclass(frozen=True)
class Job:
    """One run of all tasks."""

    backend: str
    path: Path
    done: Done
    records: dict[str, Record]

    def folder(self, task: str) -> Path:
        return self.path / str(self.records[task]["trial_name"])


@pytest.fixture(scope="module")
def local_job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return run("local", tmp_path_factory.mktemp("local"), TASKS | ON_LOCAL)


@pytest.fixture(scope="module")
def docker_job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return run("docker", tmp_path_factory.mktemp("docker"), TASKS | ON_DOCKER)


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=DOCKER)])
def job(request: pytest.FixtureRequest) -> Job:
    found: Job = request.getfixturevalue(f"{request.param}_job")
    return found


def run(backend: str, folder: Path, tasks: dict[str, dict[str, Any]]) -> Job:
    for name, parts in tasks.items():
        make_task(folder / "tasks", name, **parts)
    (folder / "secret").write_text(CANARY)
    linked = make_task(folder / "tasks", "links-to-the-host")
    (linked / "environment" / "secret").symlink_to(folder / "secret")
    done = harness(
        *("run", folder / "tasks", "--backend", backend, "--agent", "oracle", "--max-retries", "0"),
        *("--n-concurrent", "6", "--jobs-dir", folder / "jobs", "--name", "job", "--json"),
    )
    assert "Traceback" not in done.err, done.err
    return Job(backend, folder / "jobs" / "job", done, by_task(folder / "jobs" / "job"))


def outcome(record: Record) -> tuple[str, float | None, str | None]:
    return record["outcome"], record["reward"], record["failure"] and record["failure"]["tag"]


MISSING = ("task_error", None, "reward_missing")
INVALID = ("task_error", None, "reward_invalid")
PASSED = ("scored", 1.0, None)
FAILED = ("scored", 0.0, "wrong_answer")

EXPECTED: dict[str, tuple[str, float | None, str | None]] = {
    "reward-missing": MISSING,
    "reward-unparseable": INVALID,
    "reward-out-of-range": INVALID,
    "reward-near-miss": INVALID,
    "reward-declared-range": ("scored", -1.0, "wrong_answer"),
    "reward-crlf": ("scored", 0.5, "wrong_answer"),
    "reward-conflict": FAILED,
    "reward-is-a-fifo": MISSING,
    "reward-is-a-link": MISSING,
    "planted": MISSING,
    "planted-read-only": MISSING,
    "planted-link": MISSING,
    "planted-link-to-logs": MISSING,
    "planted-fifo": MISSING,
    "planted-hard-to-empty": MISSING,
    "survivor": MISSING,
    "survivor-against-a-verdict": FAILED,
    "respawner": MISSING,
    "killer": PASSED,
    "killer-of-pid-1": PASSED,
    "many-processes": PASSED,
    "strange-logs": PASSED,
    "verifier-timeout": ("infra_error", None, "verifier_timeout"),
    "agent-timeout": PASSED,
    "agent-timeout-nothing": ("agent_failed", None, "agent_timeout"),
    "crlf": ("task_error", None, "test_script_unrunnable"),
    "no-shebang-mode": PASSED,
    "status-infra": ("infra_error", None, "verifier_unavailable"),
    "verifier-kills-its-shell": ("agent_failed", None, "verifier_killed"),
    "verifier-shot-after-its-reward": ("agent_failed", None, "verifier_killed"),
    "verifier-stopped-after-its-reward": ("agent_failed", None, "verifier_killed"),
    "verifier-shot-after-a-zero": FAILED,
    "verifier-exits-137": MISSING,
    "verifier-is-loud": PASSED,
    "tight-umask": PASSED,
    "links-in-logs": PASSED,
    "leaked-tests": PASSED,
    "unset-variable": ("task_error", None, "task_invalid"),
    "becomes-healthy": PASSED,
    "never-healthy": ("infra_error", None, "environment_start"),
    "no-network": PASSED,
    "claims": FAILED,
    "asks-questions": PASSED,
    "first-step-too-low": ("scored", 0.125, "wrong_answer"),
    "both-steps": ("scored", 0.75, "wrong_answer"),
    "judged-apart": PASSED,
    "links-to-the-host": ("task_error", None, "task_invalid"),
}
EXPECTED_ON_DOCKER = {
    "other-users": PASSED,
    "other-user-plants": MISSING,
    "agent-out-of-memory": PASSED,
    "verifier-out-of-memory": ("infra_error", None, "sandbox_oom"),
    "verifier-out-of-memory-after-its-reward": ("infra_error", None, "sandbox_oom"),
    "build-fails": ("task_error", None, "build_failed"),
    "build-hangs": ("infra_error", None, "sandbox_timeout"),
    "unknown-image": ("infra_error", None, "sandbox_unavailable"),
    "unknown-base": ("infra_error", None, "sandbox_unavailable"),
}


@pytest.mark.case("B1")
@pytest.mark.case("B2")
@pytest.mark.case("B3")
@pytest.mark.case("B4")
@pytest.mark.case("B5")
@pytest.mark.case("B8")
@pytest.mark.case("B15")
@pytest.mark.parametrize("task", EXPECTED)
def test_every_task_ends_in_the_outcome_that_its_facts_ask_for(task: str, job: Job) -> None:
    record = job.records[task]
    assert outcome(record) == EXPECTED[task], record["failure"] or record["verification"]
    assert record["reward_valid"] is (record["reward"] is not None)


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("task", EXPECTED_ON_DOCKER)
def test_what_only_a_container_meets_ends_as_its_facts_ask_for_too(task: str, docker_job: Job) -> None:
    record = docker_job.records[task]
    assert outcome(record) == EXPECTED_ON_DOCKER[task], record["failure"] or record["verification"]


def test_no_attempt_is_lost_and_infrastructure_trouble_makes_the_exit_code_3(job: Job) -> None:
    end = job.done.lines[-1]
    assert end["event"] == "end"
    assert sum(end["counts"].values()) == len(job.records) == len(job.done.lines) - 2
    assert end["counts"]["pending"] == end["counts"]["cancelled"] == 0
    assert job.done.code == 3


def test_nothing_is_left_of_any_trial(job: Job) -> None:
    assert sandboxes_left(job.path, job.backend) == []
    assert processes_with(MARK) == []
    assert scraps(job.path) == []


@pytest.mark.case("B1")
def test_a_missing_reward_is_told_with_the_exit_code_and_the_last_lines(job: Job) -> None:
    verification = job.records["reward-missing"]["verification"]
    assert (verification["exit_code"], verification["output_tail"]) == (0, "hi")
    assert (job.folder("reward-missing") / "verifier" / "test-stdout.txt").read_text() == "hi\n"


@pytest.mark.case("B2")
def test_rewards_that_disagree_are_flagged(job: Job) -> None:
    assert job.records["reward-conflict"]["verification"]["conflict"] is True


@pytest.mark.case("B5")
@pytest.mark.parametrize("task", [name for name in TASKS if name.startswith("planted")])
def test_a_planted_reward_does_not_reach_the_record_either(task: str, job: Job) -> None:
    verifier = job.folder(task) / "verifier"
    assert not (verifier / "reward.txt").exists()
    assert not (verifier / "reward.json").exists()


@pytest.mark.case("B6")
def test_what_the_agent_did_outlives_a_verifier_that_missed_its_deadline(job: Job) -> None:
    record = job.records["verifier-timeout"]
    assert record["verification"]["timed_out"] is True
    assert record["verification"]["runs"] == 2
    assert record["failure"]["category"] == "infra_timeout"
    assert record["failure"]["trainable"] is False
    trajectory = json.loads((job.folder("verifier-timeout") / "agent" / "trajectory.json").read_text())
    assert [step["source"] for step in trajectory["steps"]] == ["user", "agent"]


@pytest.mark.case("B7")
def test_good_work_before_a_timeout_counts_and_the_timeout_is_noted(job: Job) -> None:
    record = job.records["agent-timeout"]
    assert record["tags"] == ["agent_timeout"]
    assert record["exception_info"]["exception_type"] == "AgentTimeoutError"
    assert job.records["agent-timeout-nothing"]["failure"]["category"] == "capability"


def test_text_that_an_agent_printed_decides_nothing(job: Job) -> None:
    failure = job.records["claims"]["failure"]
    assert (failure["category"], failure["layer"]) == ("capability", "agent")


@pytest.mark.case("A5")
def test_a_loud_verifier_is_kept_whole_on_disk_and_short_in_the_record(job: Job) -> None:
    assert len(job.records["verifier-is-loud"]["verification"]["output_tail"]) <= 4000
    verifier = job.folder("verifier-is-loud") / "verifier"
    assert (verifier / "test-stdout.txt").stat().st_size == 3_000_000
    assert (verifier / "test-stderr.txt").read_bytes() == b"a\xffb\0c\n"


@pytest.mark.case("A15")
def test_everything_collected_belongs_to_the_caller_who_can_read_and_delete_it(job: Job) -> None:
    folder = job.folder("tight-umask")
    assert (folder / "agent" / "p" / "f").read_text() == "x\n"
    assert (folder / "verifier" / "d" / "f").read_text() == "y\n"
    for path in [folder, *folder.rglob("*")]:
        found = path.stat(follow_symlinks=False)
        needed = stat.S_IRWXU if path.is_dir() else stat.S_IRUSR | stat.S_IWUSR
        assert found.st_uid == os.geteuid(), path
        assert found.st_mode & needed == needed, path
        assert not found.st_mode & (stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID), path


@pytest.mark.case("H1")
def test_links_out_of_a_log_folder_are_dropped_and_listed(job: Job) -> None:
    folder = job.folder("links-in-logs")
    outside = [
        path
        for path in folder.rglob("*")
        if path.is_symlink() and not path.resolve().is_relative_to((folder / "agent").resolve())
    ]
    assert outside == []
    assert (folder / "agent" / "real").read_text() == "real\n"
    assert not any(stat.S_ISFIFO(path.lstat().st_mode) for path in folder.rglob("*"))
    dropped = job.records["links-in-logs"]["dropped_files"]
    for name in ("agent/x", "artifacts/d", "agent/root", "agent/pipe", "agent/trajectory.json", "agent/result"):
        assert any(f"/logs/{name}" in line for line in dropped), (name, dropped)
    assert json.loads((folder / "agent" / "trajectory.json").read_text())["schema_version"].startswith("ATIF")


@pytest.mark.case("H2")
def test_a_task_that_links_to_the_host_never_reaches_a_sandbox(job: Job) -> None:
    record = job.records["links-to-the-host"]
    assert record["sandbox"] is None
    assert "secret" in record["failure"]["message"]
    assert not [path for path in job.path.rglob("*") if path.is_file() and CANARY in path.read_text(errors="replace")]


def test_leaked_copies_of_the_tests_are_gone_before_the_agent_starts(job: Job) -> None:
    assert (job.folder("leaked-tests") / "agent" / "seen").read_text() == ""
    cleaned = job.records["leaked-tests"]["cleaned"]
    assert {"/app/tests/test_secret.py", "/app/tests/test.sh"} <= set(cleaned)


@pytest.mark.case("B16")
def test_a_variable_that_is_not_set_is_named_before_any_sandbox_exists(job: Job) -> None:
    record = job.records["unset-variable"]
    assert record["sandbox"] is None
    assert "SURELY_NOT_SET_ANYWHERE" in record["failure"]["message"]


@pytest.mark.case("A16")
def test_an_environment_that_never_gets_healthy_never_sees_the_agent(job: Job) -> None:
    record = job.records["never-healthy"]
    assert record["agent_execution"] is None
    assert "exit 3" in record["failure"]["message"]


def test_without_network_there_is_no_interface_but_loopback(job: Job) -> None:
    assert (job.folder("no-network") / "agent" / "interfaces").read_text() == ""


def test_a_step_below_its_threshold_ends_the_task_and_the_rest_earns_nothing(job: Job) -> None:
    steps = job.records["first-step-too-low"]["step_results"]
    assert [(step["step_name"], step["verifier_result"]["rewards"]) for step in steps] == [("one", {"reward": 0.25})]
    assert [step["step_name"] for step in job.records["both-steps"]["step_results"]] == ["one", "two"]


def test_a_verifier_of_its_own_sees_the_artifacts_and_nothing_else(job: Job) -> None:
    assert job.records["judged-apart"]["verifier_environment_mode"] == "separate"
    assert (job.folder("judged-apart") / "artifacts" / "app" / "hello.txt").is_file()


@pytest.mark.docker
@pytest.mark.slow
def test_agent_and_verifier_run_as_the_users_that_the_task_names(docker_job: Job) -> None:
    folder = docker_job.folder("other-users")
    assert (folder / "agent" / "who").read_text() == "nobody\n"
    assert (folder / "verifier" / "who").read_text() == "www-data\n"


@pytest.mark.docker
@pytest.mark.slow
def test_an_agent_that_removes_the_shell_of_one_sandbox_after_the_other_has_failed(tmp_path: Path) -> None:
    """A verifier that does so, the sandbox being whole when the agent left it, says nothing about the agent."""
    away = "rm -f /bin/sh /bin/dash /bin/bash"
    make_task(tmp_path / "tasks", "agent", solve=solve(away))
    make_task(tmp_path / "tasks", "verifier", test=f"#!/bin/bash\n{away}\n", solve=solve("true"))
    done = harness(
        *("run", tmp_path / "tasks", "--backend", "docker", "--agent", "oracle", "--max-retries", "2", "--json"),
        *("--jobs-dir", tmp_path, "--name", "job"),
    )
    assert "Traceback" not in done.err, done.err
    ends = {name: (*outcome(record), record["failure"]["layer"]) for name, record in records(tmp_path / "job").items()}
    assert {name: end for name, end in ends.items() if name.startswith("agent")} == {
        "agent__1": ("infra_error", None, "sandbox_unusable", "sandbox"),
        "agent__1r1": ("agent_failed", None, "sandbox_unusable", "agent"),
    }
    assert {end[0] for name, end in ends.items() if name.startswith("verifier")} <= {"infra_error", "task_error"}


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.case("A8")
def test_a_kill_for_memory_is_proven_by_the_engine_and_137_alone_proves_nothing(docker_job: Job) -> None:
    killed = docker_job.records["verifier-out-of-memory"]
    assert killed["verification"]["oom"] is True
    assert killed["failure"]["category"] == "infra_oom"
    assert docker_job.records["verifier-exits-137"]["verification"]["oom"] is not True
    assert (docker_job.folder("agent-out-of-memory") / "agent" / "code").read_text() == "137\n"


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.case("A13")
def test_a_build_past_its_deadline_leaves_no_builder(docker_job: Job) -> None:
    assert docker_job.records["build-hangs"]["failure"]["category"] == "infra_timeout"
    assert MARK not in docker("ps", "--all", "--no-trunc", "--format", "{{.Command}}")


@pytest.mark.docker
@pytest.mark.slow
def test_a_failed_build_says_which_command_failed_and_how(docker_job: Job) -> None:
    assert "returned a non-zero code: 7" in docker_job.records["build-fails"]["failure"]["message"]


def test_a_dockerfile_beyond_local_is_one_line_with_its_number_and_the_way_out(local_job: Job) -> None:
    assert outcome(local_job.records["needs-docker"]) == ("task_error", None, "unsupported")
    message = local_job.records["needs-docker"]["failure"]["message"]
    assert "line 3" in message or "Dockerfile:3" in message
    assert "docker" in message
    assert "\n" not in message
