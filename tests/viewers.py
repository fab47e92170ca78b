"""`harness view` as a process of its own, asked over HTTP as a browser would, and what it is shown."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from command_line import REPO, command, environment
from recorded import realistic_job
from rollouts import call

from harness.atif.model import WRITTEN_VERSION
from harness.failures import Outcome
from harness.store.layout import JobPaths
from harness.store.rollout import RolloutWriter, SampledCall


def with_commands(folder: Path) -> dict[str, str]:
    """An environment in which this checkout's entry points count, whatever was installed and when."""
    about = folder / "site" / "viewer_of_this_checkout-1.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: viewer-of-this-checkout\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[harness.commands]\nview = evals.cli.view:view\n[harness.run_pages]\ntraining = trainer.report.view\n"
    )
    path = os.pathsep.join((str(REPO), str(about.parent)))
    return environment({"PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache")})


@dataclass
class Answer:
    """What a request got."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


@dataclass
class Viewer:
    """One that runs. `url` is what it printed."""

    url: str
    process: subprocess.Popen[str]
    cache: Path
    cookie: str = field(init=False)

    def __post_init__(self) -> None:
        found = urlsplit(self.url)
        self.host, self.port, self.path = str(found.hostname), int(found.port or 0), found.path
        self.token = found.query.removeprefix("token=")
        self.cookie = self.get(f"/?token={self.token}", cookie="").headers["set-cookie"].partition(";")[0]

    def get(
        self, path: str, *, host: str | None = None, cookie: str | None = None, method: str = "GET", **headers: str
    ) -> Answer:
        """Ask exactly this path."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True)
            sent = {"Host": host or f"{self.host}:{self.port}", "Cookie": self.cookie if cookie is None else cookie}
            for name, value in {**sent, **headers}.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    @contextmanager
    def events(self, path: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a stream, as they come."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.request("GET", path, headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")

        def told() -> Iterator[dict[str, Any]]:
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

        try:
            yield told()
        finally:
            answer.close()
            connection.close()

    def indexed(self) -> None:
        """Wait until it has read the folders."""
        deadline = time.monotonic() + 60
        while "Reading the folders" in self.get("/").text:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def end(self) -> tuple[int, str]:
        """Press Ctrl-C; the exit code, and everything else that it printed."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out + err


@contextmanager
def viewer(folder: Path, scratch: Path, *options: str | Path) -> Iterator[Viewer]:
    """The viewer of a folder, until the block's end."""
    process = subprocess.Popen(
        command("view", folder, *options),
        env=with_commands(scratch),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=scratch,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        ready, _, _ = select.select([process.stdout], [], [], 60)
        line = process.stdout.readline().strip() if ready else ""
        assert line.startswith("http://127.0.0.1:"), line or process.stderr.read()
        yield Viewer(line, process, scratch / "cache")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def trial_with_tokens(job: Path, *, text: str = "I look.", output: str = "total 0") -> Path:
    """A job of one trial with two sampled calls, the second extending the first, and a sub-agent of one."""
    from runs import write_job

    write_job(job, {"suite/tokens": [1.0]}, categories={"suite/tokens": ["coding"]})
    trial = job / "t0000__1"
    (trial / "agent").mkdir()
    steps = [
        {"step_id": 1, "source": "user", "message": "Do it."},
        _turn(2, text, output),
        {"step_id": 3, "source": "agent", "message": "Done."},
    ]
    agent = {"name": "tool_calling", "version": "1"}
    inner = {"schema_version": WRITTEN_VERSION, "trajectory_id": "helper-1", "agent": agent, "steps": steps[:2]}
    whole = {"schema_version": WRITTEN_VERSION, "agent": agent, "steps": steps, "subagent_trajectories": [inner]}
    (trial / "agent" / "trajectory.json").write_text(json.dumps(whole))
    writer = RolloutWriter(JobPaths(job).trial(trial.name).rollout())
    for each in sampled():
        writer.add(each)
    writer.close()
    return trial


def sampled() -> list[SampledCall]:
    """Two calls: [1, 2] gives 7 and 8, of which 8 is very surprising; then [1, 2, 7, 8, 3] gives 9."""
    return [
        call([1, 2], [7, 8], call_id="a", step_id=2, logprobs=[-0.05, -9.5]),
        call([1, 2, 7, 8, 3], [9], call_id="b", step_id=3, logprobs=[-0.8]),
    ]


def _turn(number: int, text: str, output: str) -> dict[str, Any]:
    result = {"source_call_id": "c", "content": output, "extra": {"exit_code": 0}}
    return {
        "step_id": number,
        "source": "agent",
        "message": text,
        "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}],
        "observation": {"results": [result]},
    }


def training_run(folder: Path, *, steps: int = 12) -> Path:
    """A run with one curve and one invariant."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"export": "data", "model": "m", "config": {"algo": "cispo"}}))
    lines = [json.dumps({"step": step, "reward_mean": step / steps}) for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    told = {"step": 5, "kind": "invariant", "name": "exploration", "level": "alarm", "evidence": "entropy 0.05"}
    (folder / "events.jsonl").write_text(json.dumps(told) + "\n")
    return folder


def folder_of_jobs(root: Path, hostile: str) -> Path:
    """Two comparable jobs, one with tokens, one in which everything is hostile, its names too, and a run."""
    from recorded import change, write_trajectory
    from runs import write_job

    jobs = root / "jobs"
    realistic_job(jobs / "before", tasks=24, attempts=2, seed=1, steps=4)
    realistic_job(jobs / "after", tasks=24, attempts=2, seed=2, skill=0.2, steps=4)
    trial_with_tokens(jobs / "tokens")
    training_run(jobs / "run-1")
    job = jobs / '"><img src=x onerror=alert(1)>'
    write_job(job, {hostile: [0.0, Outcome.INFRA_ERROR]}, categories={hostile: [hostile]}, message=hostile)
    for result in job.glob("*/result.json"):
        change(result, lambda record: setattr(record.agent_info, "name", hostile))
        turn = {"agent": hostile, "reasoning": hostile, "call": hostile, "output": hostile + "\n" + "x" * 100_000}
        write_trajectory(result.parent, [{"user": hostile}, turn])
        (result.parent / "verifier").mkdir()
        (result.parent / "verifier" / "test-stdout.txt").write_text(hostile)
        kept = result.parent / "artifacts"
        kept.mkdir()
        (kept / "page.html").write_text("<script>alert(1)</script>" + hostile.replace("\0", ""))
        (kept / "a b#?%&'<b>.txt").write_text("odd name")
        (root / "secret.txt").write_text("the secret")
        (kept / "link.txt").symlink_to(root / "secret.txt")
        (kept / "folder").symlink_to(root)
        os.mkfifo(kept / "pipe")
    (jobs / "linked").symlink_to(jobs / "before")
    (jobs / "dangling").symlink_to(root / "nowhere")
    return jobs
