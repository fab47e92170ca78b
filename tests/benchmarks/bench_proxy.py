"""What the model proxy adds to a call, each against the same calls without it, in one run.

The upstream and the proxy are processes of their own. Requests are an agent's: 14 tools and a history of some turns,
about 40 KB, and every answer is put on record. Printed and limited:

- added latency: the medians of calls with and without the proxy, made in turns; at most 3 ms between them;
- throughput: requests for each second of the proxy's own CPU time, which is what one core can do; at least 200, by
  each dialect's own requests of a usual turn;
- 1,000 streams at once: all of them whole, and the wall time against the same streams without the proxy.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import Answer, chunk, completion, serving
from proxied import endpoint, trial

from harness.proxy import ModelProxy

STREAMS = 1000
PIECES = 20
TRIALS = 50
TICKS = os.sysconf("SC_CLK_TCK")
USAGE = {"prompt_tokens": 10_000, "completion_tokens": 20}


# The processes


async def serve_upstream() -> None:
    """Be an endpoint until standard input ends."""
    stream = Answer(chunks=[*(chunk({"content": f"w{n} "}) for n in range(PIECES)), chunk({}, finish="stop")])
    whole = completion("Looking.", calls=[("c", "bash", '{"command": "ls -la /app"}')], usage=USAGE)
    async with serving(lambda request: stream if request.get("stream") else whole) as upstream:
        print(json.dumps({"url": upstream.url}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def serve_proxy(url: str, folder: Path) -> None:
    """Be a proxy with many trials until standard input ends."""
    async with ModelProxy(endpoint(url, capture=True)) as proxy:
        trials = [trial(proxy, folder / str(n)) for n in range(TRIALS)]
        leases = [{"url": each.lease.openai_base_url, "key": each.lease.key} for each in trials]
        print(json.dumps({"leases": leases}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for each in trials:
            await each.close()


class Service:
    """One of them, and how much CPU it has used."""

    def __init__(self, *argv: str) -> None:
        command = [sys.executable, __file__, *argv]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        assert self._process.stdout is not None
        self.said: dict[str, Any] = json.loads(self._process.stdout.readline())

    def cpu_sec(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_mb(self) -> float:
        """Resident memory at its highest."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def upstream() -> Iterator[Service]:
    service = Service("upstream")
    yield service
    service.close()


@pytest.fixture(scope="module")
def proxy(upstream: Service) -> Iterator[Service]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # the disk is not what is measured
        service = Service("proxy", upstream.said["url"], folder)
        yield service
        service.close()


# The client: as little as can be, for it shares the machine with what is measured


class Line:
    """One connection that is kept."""

    def __init__(self, url: str, key: str) -> None:
        self._host, _, self._path = url.removeprefix("http://").partition("/")
        self._key = key
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> bytes:
        """The whole answer's body."""
        if self._ends is None:
            host, _, port = self._host.partition(":")
            self._ends = await asyncio.open_connection(host, int(port), limit=1 << 20)
        reader, writer = self._ends
        head = f"POST /{self._path}/{path} HTTP/1.1\r\nhost: {self._host}\r\nauthorization: Bearer {self._key}\r\n"
        writer.write(head.encode() + f"content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert answer.startswith(b"http/1.1 200"), answer
        if b"transfer-encoding: chunked" not in answer:
            length = next(line for line in answer.split(b"\r\n") if line.startswith(b"content-length:"))
            return await reader.readexactly(int(length.partition(b":")[2]))
        content = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            content += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
        return content

    async def close(self) -> None:
        """Hang up."""
        if self._ends is not None:
            self._ends[1].close()
            await self._ends[1].wait_closed()


TOOLS = [
    {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "word " * 40} for n in range(6)}}
] * 14


def chat_turns(turns: int, task: str) -> Iterator[dict[str, Any]]:
    """An agent's requests in OpenAI's chat format."""
    history: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent. " * 300},
        {"role": "user", "content": task},
    ]
    tools = [
        {"type": "function", "function": {"name": f"t{n}", "description": "d " * 100, "parameters": schema}}
        for n, schema in enumerate(TOOLS)
    ]
    for _ in range(turns):
        yield {"model": "m", "messages": list(history), "tools": tools}
        call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls -la /app"}'}}
        history += [
            {"role": "assistant", "content": "Looking.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "drwxr-xr-x 2 root root\n" * 40},
        ]


def message_turns(turns: int, task: str) -> Iterator[dict[str, Any]]:
    """The same in Anthropic's."""
    tools = [{"name": f"t{n}", "description": "d " * 100, "input_schema": schema} for n, schema in enumerate(TOOLS)]
    history: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for _ in range(turns):
        system = [{"type": "text", "text": "You are an agent. " * 300}]
        yield {"model": "m", "max_tokens": 99, "system": system, "messages": list(history), "tools": tools}
        used = {"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "ls -la /app"}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": "drwxr-xr-x 2 root root\n" * 40}
        history += [
            {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, used]},
            {"role": "user", "content": [result]},
        ]


# What is promised


async def test_a_call_takes_at_most_3_ms_longer(upstream: Service, proxy: Service) -> None:
    lease = proxy.said["leases"][0]
    direct, through = Line(upstream.said["url"], "k"), Line(lease["url"], lease["key"])
    taken: dict[Line, list[float]] = {direct: [], through: []}
    bodies = [json.dumps(body).encode() for body in chat_turns(40, "Latency.")]
    for _ in range(5):
        for body in bodies:
            for line in (direct, through):
                started = time.perf_counter()
                await line.post("chat/completions", body)
                taken[line].append(time.perf_counter() - started)
    for line in taken:
        await line.close()
    plain, added = statistics.median(taken[direct]), statistics.median(taken[through])
    size = statistics.mean(map(len, bodies)) / 1000
    print(f"\na call of {size:.0f} KB: {plain * 1000:.2f} ms without, {added * 1000:.2f} ms with the proxy,", end=" ")
    print(f"{(added - plain) * 1000:.2f} ms between the medians (at most 3)")
    assert added - plain <= 0.003


@pytest.mark.parametrize(("path", "turns"), [("chat/completions", chat_turns), ("messages", message_turns)])
async def test_one_core_serves_200_requests_a_second(path: str, turns: Any, proxy: Service) -> None:
    async def agent(number: int) -> int:
        lease = proxy.said["leases"][number]
        line = Line(lease["url"], lease["key"])
        bodies = [json.dumps(body).encode() for body in turns(20, f"Task {number} by {path}.")]
        for body in bodies:
            await line.post(path, body)
        await line.close()
        return len(bodies)

    before, started = proxy.cpu_sec(), time.perf_counter()
    asked = sum(await asyncio.gather(*(agent(number) for number in range(1, TRIALS))))
    cpu, wall = proxy.cpu_sec() - before, time.perf_counter() - started
    print(
        f"\n{path}: {asked} requests of {TRIALS - 1} agents: {asked / cpu:.0f} a second of one core (at least 200),",
        end=" ",
    )
    print(f"{asked / wall:.0f} a second as the machine was, {proxy.peak_mb():.0f} MB")
    assert asked / cpu >= 200


async def test_a_thousand_streams_at_once_are_all_whole(upstream: Service, proxy: Service) -> None:
    async def one(url: str, key: str, number: int) -> bool:
        line = Line(url, key)
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": f"Stream {number}."}]}
        content = await line.post("chat/completions", json.dumps(body).encode())
        await line.close()
        return content.count(b"data: ") == PIECES + 2 and content.endswith(b"data: [DONE]\n\n")

    async def all_of(leases: list[dict[str, str]]) -> float:
        started = time.perf_counter()
        asked = [one(leases[n % len(leases)]["url"], leases[n % len(leases)]["key"], n) for n in range(STREAMS)]
        assert all(await asyncio.gather(*asked))
        return time.perf_counter() - started

    plain = await all_of([{"url": upstream.said["url"], "key": "k"}])
    before = proxy.cpu_sec()
    through = await all_of(proxy.said["leases"])
    cpu = proxy.cpu_sec() - before
    print(
        f"\n{STREAMS} streams of {PIECES} pieces at once: {plain:.1f} s without, {through:.1f} s with the proxy,",
        end=" ",
    )
    print(f"{through / plain:.1f} times; {cpu:.1f} s of CPU, {proxy.peak_mb():.0f} MB")


if __name__ == "__main__":
    if sys.argv[1] == "upstream":
        asyncio.run(serve_upstream())
    else:
        asyncio.run(serve_proxy(sys.argv[2], Path(sys.argv[3])))
