"""What tracing costs a run, and what a broken server costs it.

Overhead: 100 trials of 20 model calls and 20 tool calls each (their folders copied from one record). Printed for each
exporter: milliseconds a trial in the run's own process, and in the child process, CPU and wall; off and on are
measured in turns. Then the fault table: the wall time of a job of 20 trials, off, and on with each fault.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from traced_jobs import traced_job
from tracing_runs import exporter_of, run_once, server_of
from tracing_servers import FAULTS, serving

from harness.atif.model import Metrics, ToolCall
from harness.atif.writer import TrajectoryWriter
from harness.store.layout import JobPaths
from harness.store.reader import load_result
from harness.tracing.exporter import Exporter
from harness.tracing.push import push
from harness.tracing.sink import Target
from harness.trial.events import TrialFinished

N_TRIALS, N_TURNS, N_ROUNDS = 100, 20, 2


def large_job(folder: Path) -> Path:
    """A job of `N_TRIALS` trials, each a conversation of `N_TURNS` turns."""
    job = traced_job(folder)
    template = job / "b__2"
    path = JobPaths(job).trial("b__2").trajectory()
    writer = TrajectoryWriter(path, session_id="s", agent_name="a", agent_version="1", model_name="m")
    writer.user("Do it. " * 50)
    for turn in range(N_TURNS):
        calls = [ToolCall(tool_call_id=f"c{turn}", function_name="bash", arguments={"command": f"sed -n {turn}p file"})]
        extra = {"duration_sec": 1.0, "finish_reason": "tool_calls"}
        metrics = Metrics(prompt_tokens=1000 + turn, completion_tokens=50, extra=extra)
        writer.agent("Next. " * 20, tool_calls=calls, metrics=metrics)
        writer.result(f"c{turn}", "a line of output\n" * 60, extra={"exit_code": 0, "duration_sec": 0.1})
    writer.close()
    for number in range(N_TRIALS):
        shutil.copytree(template, job / f"t{number:03}__1")
    for name in ("a__1", "a__2", "b__1", "b__2"):
        shutil.rmtree(job / name)
    return job


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def start_up(target: Target, job: Path) -> float:
    """CPU seconds of a child that sends one trial: what it takes to be there."""
    with serving(server_of(target, None)) as server:
        before = cpu(resource.RUSAGE_CHILDREN)
        assert push(exporter_of(target, job, server), ["t000__1"]).sent == 1
        return cpu(resource.RUSAGE_CHILDREN) - before


def overhead(target: Target, job: Path) -> None:
    names = [folder.name for folder in JobPaths(job).trial_folders()]
    event = TrialFinished(load_result(job / names[0] / "result.json"))
    in_run: dict[str, list[float]] = {"off": [], "on": []}
    children, walls = [], []
    least = min(start_up(target, job) for _ in range(2))
    for _ in range(N_ROUNDS):
        for subscribers in ([], [exporter_of(target, job, server_of(target, "closed"))]):
            for exporter in subscribers:
                exporter.start()
            before = cpu(resource.RUSAGE_SELF)
            for _name in names:
                for exporter in subscribers:
                    exporter(event)
            in_run["on" if subscribers else "off"].append(cpu(resource.RUSAGE_SELF) - before)
            for exporter in subscribers:
                exporter.kill()
        with serving(server_of(target, None)) as server:
            exporter = exporter_of(target, job, server)
            before, began = cpu(resource.RUSAGE_CHILDREN), time.monotonic()
            assert push(exporter, names).sent == N_TRIALS
            children.append(cpu(resource.RUSAGE_CHILDREN) - before - least)
            walls.append(time.monotonic() - began)
            wire = sum(int(request.headers.get("content-length") or 0) for request in server.requests)
    on, off = (1000 * statistics.median(in_run[which]) / N_TRIALS for which in ("on", "off"))
    each = 1000 / N_TRIALS
    print(
        f"{target.label}: {on - off:.3f} ms CPU a trial in the run ({off:.3f} without); in the child "
        f"{each * statistics.median(children):.1f} ms CPU and {each * statistics.median(walls):.1f} ms wall a trial, "
        f"{least:.2f} s CPU to start; {wire / N_TRIALS / 1000:.1f} kB a trial on the wire"
    )


def faults(target: Target, folder: Path) -> None:
    for fault in (None, *FAULTS):
        off, on = [], []
        sent = offered = 0
        for turn in range(N_ROUNDS):
            off.append(run_once(folder, f"{target}{fault}{turn}off", []))
            with serving(server_of(target, fault)) as server:
                exporter: Exporter = exporter_of(target, folder / f"{target}{fault}{turn}on", server)
                on.append(run_once(folder, f"{target}{fault}{turn}on", [exporter]))
            sent, offered = sent + exporter.tally.sent, offered + exporter.tally.offered
        growth = min(with_ - without for with_, without in zip(on, off, strict=True))
        middle = statistics.median(on) - statistics.median(off)
        times = f"off {statistics.median(off):5.2f} s  on {statistics.median(on):5.2f} s"
        grown = f"grows by {middle:5.2f} s (least {growth:5.2f})"
        print(f"{target.label:14} {fault or 'works':8} {times}  {grown}  sent {sent}/{offered}", flush=True)


def test_what_tracing_costs() -> None:
    print(f"\nload {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        job = large_job(Path(folder) / "jobs")
        for target in Target:
            overhead(target, job)
    with tempfile.TemporaryDirectory() as folder:
        for target in Target:
            faults(target, Path(folder))
