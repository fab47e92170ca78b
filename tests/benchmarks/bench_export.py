"""What sampled tokens cost: on disk and to load (a 50-turn rollout of 50,000 tokens), and to export (10 M tokens).

Printed: bytes a token, load time, CPU-seconds and tokens a second of one core, peak resident memory.
Limits: 8 bytes a token with ids spread evenly over a vocabulary of 150,000 (text compresses better), 0.2 CPU-seconds to
load with every prompt rebuilt; 1,000,000 tokens a CPU-second from files to checked Parquet, 300 MB.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from array import array
from pathlib import Path

from rollouts import job_of
from runs import write_job

from harness.export.rl import export_rl
from harness.store.rollout import RolloutReader, RolloutWriter, SampledCall

TURNS, ANSWER, SEEN, HEAD = 50, 400, 580, 1000
ATTEMPTS = 200


def rollout(seed: int) -> list[SampledCall]:
    """50 turns of 400 sampled and 580 read tokens each, after a head of 1,000."""
    rng = random.Random(seed)

    def ids(count: int) -> array[int]:
        return array("i", (rng.randrange(150_000) for _ in range(count)))

    history, calls = ids(HEAD), []
    for turn in range(TURNS):
        answer = ids(ANSWER)
        calls.append(
            SampledCall(
                call_id=f"main/{turn}",
                step_id=2 * turn + 3,
                prompt_ids=history,
                completion_ids=answer,
                logprobs=array("f", (-rng.expovariate(4) for _ in range(ANSWER))),
                finish_reason="tool_calls",
                sampling={"temperature": 1.0, "top_p": 1.0, "logprobs_mode": "raw"},
                policy_version="step-100",
                model="org/model",
                engine="vllm",
            )
        )
        history = history + answer + ids(SEEN)
    return calls


def test_a_long_rollout_is_small_and_loads_at_once(tmp_path: Path) -> None:
    path, calls = tmp_path / "rollout.bin", rollout(0)
    writer = RolloutWriter(path)
    before = time.process_time()
    for call in calls:
        writer.add(call)
    writing = time.process_time() - before
    writer.close()
    tokens = len(calls[-1].prompt_ids or ()) + ANSWER
    before = time.process_time()
    loaded = sum(len(call.prompt_ids or ()) for call in RolloutReader(path))
    loading = time.process_time() - before
    assert loaded == sum(len(call.prompt_ids or ()) for call in calls)
    each = path.stat().st_size / tokens
    print(f"\n{tokens} tokens: {each:.2f} bytes each, written in {writing:.3f} s, loaded in {loading:.3f} s")
    assert each <= 8
    assert loading < 0.2


def test_a_core_exports_a_million_tokens_a_second(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", [rollout(0)])
    source = (job / "t0000__1" / "agent" / "rollout.bin").read_bytes()
    write_job(tmp_path / "many", {"t": [1.0] * ATTEMPTS})
    for number in range(1, ATTEMPTS + 1):
        agent = tmp_path / "many" / f"t0000__{number}" / "agent"
        agent.mkdir()
        (agent / "rollout.bin").write_bytes(source)
    command = [sys.executable, __file__, str(tmp_path / "many"), str(tmp_path / "rows")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)})
    cost = json.loads(done.stdout.splitlines()[-1])
    size = sum(path.stat().st_size for path in (tmp_path / "rows").glob("*.parquet"))
    rate = cost["tokens"] / cost["cpu_sec"]
    print(
        f"\n{cost['tokens']} tokens in {cost['cpu_sec']:.2f} CPU-seconds: {rate / 1e6:.2f} M a second, "
        f"{size / cost['tokens']:.2f} bytes each, peak {cost['peak_mb']:.0f} MB"
    )
    assert rate >= 1e6
    assert cost["peak_mb"] <= 300


def measure(job: str, target: str) -> None:
    """In a process of its own: export, and print what it cost."""
    before = time.process_time()
    stats = export_rl([Path(job)], Path(target))
    cost = {"tokens": stats.tokens.total(), "cpu_sec": time.process_time() - before}
    print(json.dumps({**cost, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    measure(*sys.argv[1:])
