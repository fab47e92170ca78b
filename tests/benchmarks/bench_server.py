"""What the policy server gains by sharing, with the tiny model on one thread of a process of its own. Limited:

- throughput: 16 requests at once against the same requests one after the other, in turns; tokens for each second of
  wall time, at least 4 times as many in the best of the rounds;
- new weights: the time that the engine stands still for them, at most 200 ms; and the longest that one of 16 streams
  waits for its next token while they come: as long where answers finish on the old weights, twice as long where they
  continue on the new ones, which first read again what there is. The server is busy all the while, so what it waits
  for beyond its own CPU time is the machine's other work: this is multiplied by the share of a core that it had;
- the prefix cache: the prompts of a trial of 12 turns, read anew in every turn or only on; at least twice as quick.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from trainer.policy.tiny import save_tiny

AT_ONCE = 16
TOKENS = 64
ROUNDS = 4
TURNS = 12
KEY = "sk-bench"
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """`harness serve tiny` in a process of its own."""

    def __init__(self, *argv: str) -> None:
        code = "import sys; from trainer.rollout.command import serve; import typer; typer.run(serve)"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "tiny", "--port", "0", *argv],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HARNESS_SERVE_KEY": KEY},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def cpu_sec(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    async def complete(self, session: aiohttp.ClientSession, prompt: list[int], tokens: int, **more: Any) -> Any:
        """The choice, and how many tokens of the prompt were not read."""
        body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, **more}
        async with session.post(f"{self.url}/completions", json=body) as response:
            answer = await response.json()
        return answer["choices"][0], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(*getattr(request, "param", ()))
    yield server
    server.close()


async def test_sixteen_at_once_sample_four_times_as_fast_as_one_after_the_other(server: Server) -> None:
    prompts = [[(31 * row + place) % 256 for place in range(100)] for row in range(AT_ONCE)]
    best = {"alone": 0.0, "at once": 0.0}
    spent = {"alone": 0.0, "at once": 0.0}
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(server.complete(session, each, 1) for each in prompts))
        for _ in range(ROUNDS):
            began, cpu = time.perf_counter(), server.cpu_sec()
            for each in prompts[:4]:
                await server.complete(session, each, TOKENS)
            best["alone"] = max(best["alone"], 4 * TOKENS / (time.perf_counter() - began))
            spent["alone"] += (server.cpu_sec() - cpu) / 4
            began, cpu = time.perf_counter(), server.cpu_sec()
            await asyncio.gather(*(server.complete(session, each, TOKENS) for each in prompts))
            best["at once"] = max(best["at once"], AT_ONCE * TOKENS / (time.perf_counter() - began))
            spent["at once"] += (server.cpu_sec() - cpu) / AT_ONCE
    ratio = best["at once"] / best["alone"]
    by_cpu = spent["alone"] / spent["at once"]
    print(f"\n{best['alone']:.0f} tokens/s alone, {best['at once']:.0f} with {AT_ONCE} at once: {ratio:.1f} times; ")
    print(f"for each second of the server's CPU {by_cpu:.1f} times")
    assert max(ratio, by_cpu) >= 4


@pytest.mark.parametrize(
    ("server", "limit"),
    [(("--on-update", "finish"), 0.2), (("--on-update", "continue"), 0.4)],
    indirect=["server"],
)
async def test_new_weights_hold_nobody_up(server: Server, limit: float, tmp_path: Path) -> None:
    save_tiny(tmp_path, seed=5)
    stalls: list[float] = []
    async with aiohttp.ClientSession() as session:

        async def swap() -> None:
            body = {"path": str(tmp_path), "version": str(len(stalls) + 1)}
            async with session.post(
                f"{server.url}/weights", json=body, headers={"authorization": f"Bearer {KEY}"}
            ) as response:
                stalls.append((await response.json())["stall_sec"])

        async def longest_gap(row: int) -> float:
            body = {"prompt": [row] * 100, "max_tokens": 200, "ignore_eos": True, "stream": True}
            gaps, last = [0.0], 0.0
            async with session.post(f"{server.url}/completions", json=body) as response:
                async for line in response.content:
                    if b"token_logprobs" in line:
                        now = time.perf_counter()
                        gaps.append(now - last if last else 0.0)
                        last = now
            return max(gaps)

        quiet = max(await asyncio.gather(*map(longest_gap, range(AT_ONCE))))
        began, cpu = time.perf_counter(), server.cpu_sec()
        streams = [asyncio.create_task(longest_gap(row)) for row in range(AT_ONCE)]
        await asyncio.sleep(0.5)
        for _ in range(3):
            await swap()
        moved = max(await asyncio.gather(*streams))
        share = min(1.0, (server.cpu_sec() - cpu) / (time.perf_counter() - began))
    print(f"\nthe engine stood still for {max(stalls) * 1e3:.2f} ms; the longest wait for a token was ", end="")
    print(f"{moved * 1e3:.0f} ms ({quiet * 1e3:.0f} without new weights) at {share:.0%} of a core")
    assert max(stalls) < 0.2
    assert moved * share < limit


async def test_a_trials_turns_are_read_once(tmp_path: Path) -> None:
    seconds: dict[str, float] = {}
    for room in ("0", "512"):
        server = Server("--prefix-cache", room)
        try:
            prompt = [place % 256 for place in range(600)]
            async with aiohttp.ClientSession() as session:
                await server.complete(session, [1], 1)
                began, read = server.cpu_sec(), 0
                for _ in range(TURNS):
                    choice, cached = await server.complete(session, prompt, 8)
                    read += len(prompt) - cached
                    prompt += [*choice["token_ids"], *range(120)]
                seconds[room] = server.cpu_sec() - began
                print(f"\n{room} MiB: {read} tokens of prompts read, {seconds[room]:.2f} s of CPU", end="")
        finally:
            server.close()
    gain = seconds["0"] / seconds["512"]
    print(f": {gain:.1f} times as quick")
    assert gain >= 2
