"""Queue mode: a model for sandboxes without a network, through files and one long poll at a time."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from model_server import Answer, chunk, completion, serving
from proxied import endpoint, proxied

from backends import SandboxSpec, create_provider, open_sandbox
from backends.protocol import SandboxBackendProtocol
from harness.errors import AgentSetupError
from harness.proxy import relayed
from harness.proxy.queue.http import Malformed, parse
from harness.proxy.queue.relay import Address, Queue, _news

CLIENT = r"""
use strict; use Socket; $| = 1;
my ($port, $path, $key, $count) = @ARGV;
local $/; my $body = <STDIN>; my $length = length $body;
socket(my $to, PF_INET, SOCK_STREAM, 6); connect($to, sockaddr_in($port, INADDR_LOOPBACK)) or die "$!\n";
syswrite $to, "POST $path HTTP/1.1\r\nhost: 127.0.0.1:$port\r\nx-api-key: $key\r\ncontent-length: $length\r\n\r\n$body";
while (sysread $to, my $data, 65536) { print $data; last if $count && --$count == 0 }
"""
BACKENDS = ["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])]


@asynccontextmanager
async def sandboxed(backend: str) -> AsyncIterator[SandboxBackendProtocol]:
    """A sandbox that reaches nothing, with a small HTTP client in it."""
    provider = create_provider(backend)
    with TemporaryDirectory() as build:
        Path(build, "Dockerfile").write_text("FROM debian:bookworm-slim\n")
        spec = SandboxSpec(build_dir=Path(build)) if backend == "local" else SandboxSpec(image="debian:bookworm-slim")
        try:
            async with open_sandbox(provider, spec) as sandbox:
                await sandbox.write("/tmp/client.pl", CLIENT.encode())
                yield sandbox
        finally:
            await provider.close()


async def ask(sandbox: SandboxBackendProtocol, to: Address, text: str, *, stream: bool = False, count: int = 0) -> str:
    """What the client in the sandbox reads."""
    port, path = to.openai_base_url.removeprefix("http://127.0.0.1:").split("/", 1)
    body = json.dumps({"stream": stream, "messages": [{"role": "user", "content": text}]})
    argv = ["perl", "/tmp/client.pl", port, f"/{path}/chat/completions", to.key, str(count)]
    done = await sandbox.execute(shlex.join(argv), timeout=30, stdin=body.encode(), max_output=8 << 20)
    assert done.exit_code == 0, done.output
    return done.stdout.decode()


def _address(url: str) -> Address:
    return Address(anthropic_base_url="", google_base_url="", openai_base_url=url, key="key")


def echo(request: dict[str, Any]) -> Answer:
    """The last message comes back, with a field that nobody knows."""
    text = request["messages"][-1]["content"]
    if request.get("stream"):
        return Answer(chunks=[chunk({"content": text}), chunk({"content": "!"}), chunk({}, finish="stop")])
    return completion(message={"role": "assistant", "content": text, "reasoning_content": "r"})


@pytest.mark.parametrize("backend", BACKENDS)
async def test_an_agent_without_a_network_is_answered_whole_and_in_pieces_and_several_at_once(
    backend: str, tmp_path: Path
) -> None:
    async with serving(echo) as up, proxied(endpoint(up.url), tmp_path) as trial, sandboxed(backend) as sandbox:
        async with relayed(trial.lease, sandbox) as address:
            whole = await ask(sandbox, address, "one")
            assert whole.startswith("HTTP/1.1 200 OK\r\n")
            message = json.loads(whole.split("\r\n\r\n", 1)[1])["choices"][0]["message"]
            assert message == {"role": "assistant", "content": "one", "reasoning_content": "r"}
            streamed = await ask(sandbox, address, "two", stream=True)
            assert "text/event-stream" in streamed and streamed.endswith("data: [DONE]\n\n")
            large = "x" * 250_000
            several = await asyncio.gather(*(ask(sandbox, address, f"{n} {large[: n * 50_000]}") for n in range(6)))
            assert [
                json.loads(each.split("\r\n\r\n", 1)[1])["choices"][0]["message"]["content"] for each in several
            ] == [f"{n} {large[: n * 50_000]}" for n in range(6)]
        left = await sandbox.execute("ls -A /tmp; cat /proc/[0-9]*/cmdline | tr '\\0' ' '", timeout=10)
        assert ".model-" not in left.output
    assert trial.lease.answers == 8


async def test_a_key_of_another_trial_is_refused_in_the_queue_too(tmp_path: Path) -> None:
    async with serving(echo) as up, proxied(endpoint(up.url), tmp_path) as trial, sandboxed("local") as sandbox:
        async with relayed(trial.lease, sandbox) as address:
            other = replace(address, key="sk-harness-x")
            assert (await ask(sandbox, other, "x")).startswith("HTTP/1.1 401 Unauthorized\r\n")
    assert up.requests == []


async def test_a_client_that_leaves_frees_its_request(tmp_path: Path) -> None:
    async with serving(Answer(silent=True)) as up, proxied(endpoint(up.url), tmp_path) as trial:
        async with sandboxed("local") as sandbox, relayed(trial.lease, sandbox) as address:
            asking = asyncio.create_task(ask(sandbox, address, "x"))
            while not trial.lease.in_flight:
                await asyncio.sleep(0.02)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            async with asyncio.timeout(15):
                while trial.lease.in_flight:
                    await asyncio.sleep(0.02)
    assert trial.lease.answers == 0


async def test_requests_wait_until_they_are_acknowledged_and_each_is_answered_once_in_any_order() -> None:
    async with sandboxed("local") as sandbox:
        queue = Queue(sandbox, "/tmp/.model-test", user=None)
        port = await queue.start()
        to = _address(f"http://127.0.0.1:{port}/trial/v1")
        asking = [asyncio.create_task(ask(sandbox, to, f"q{n}")) for n in range(3)]
        async with asyncio.timeout(20):
            while len(news := await queue.poll([])) < 3:  # unacknowledged: every poll tells of all of them
                pass
        assert [(kind, index) for kind, index, _ in news] == [("R", 1), ("R", 2), ("R", 3)]
        for _, index, request in reversed(news):
            text = json.loads(parse(request)[1])["messages"][0]["content"]
            response = f"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nanswer to {text}".encode()
            assert await queue.deliver(index, 0, response[:20], last=False)
            assert await queue.deliver(index, 1, response[20:], last=True)
        answers = await asyncio.gather(*asking)
        assert [each.rpartition("\r\n\r\n")[2] for each in answers] == ["answer to q0", "answer to q1", "answer to q2"]
        assert not await queue.deliver(2, 2, b"more", last=True), "nobody waits for it any more"
        assert not await queue.deliver(9, 0, b"early", last=True), "nobody asked"
        late = asyncio.create_task(ask(sandbox, to, "late"))
        (only,) = await queue.poll([1, 2, 3])
        assert only[:2] == ("R", 4)
        await queue.deliver(4, 0, b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n", last=True)
        await late
        await sandbox.execute("kill -KILL -$(cat /tmp/.model-test/pid)", timeout=5)
        async with asyncio.timeout(5):
            assert await queue.poll([4]) == [("E", 0, b"")]
        await queue.stop()


async def test_a_piece_that_is_delivered_twice_before_it_was_read_is_one() -> None:
    async with sandboxed("local") as sandbox:
        queue = Queue(sandbox, "/tmp/.model-test", user=None)
        to = _address(f"http://127.0.0.1:{await queue.start()}/t/v1")
        asking = asyncio.create_task(ask(sandbox, to, "q"))
        ((_, index, _),) = await queue.poll([])
        for _ in range(2):
            assert await queue.deliver(index, 1, b"world", last=True), "it comes second, and has to wait"
        await queue.deliver(index, 0, b"hello ", last=False)
        assert await asking == "hello world"
        await queue.stop()


async def test_a_sandbox_without_perl_says_what_is_missing(tmp_path: Path) -> None:
    async with serving(echo) as up, proxied(endpoint(up.url), tmp_path) as trial, sandboxed("local") as sandbox:
        bare = _WithoutPerl(sandbox)
        with pytest.raises(AgentSetupError, match="perl-base"):
            async with relayed(trial.lease, bare):  # type: ignore[arg-type]
                pass


class _WithoutPerl:
    """A sandbox whose PATH has no perl."""

    def __init__(self, sandbox: SandboxBackendProtocol) -> None:
        self._sandbox = sandbox

    async def execute(self, command: str, **options: Any) -> Any:
        return await self._sandbox.execute(f"PATH=/nowhere; {command}", **options)


async def test_what_ends_in_the_sandbox_is_noted_and_nothing_hangs(tmp_path: Path) -> None:
    async with serving(echo) as up, proxied(endpoint(up.url), tmp_path) as trial, sandboxed("local") as sandbox:
        async with relayed(trial.lease, sandbox) as address:
            await ask(sandbox, address, "one")
            await sandbox.execute("kill -KILL -$(cat /tmp/.model-*/pid)", timeout=5)
            async with asyncio.timeout(10):
                path = trial.trajectory.path
                while not path.exists() or "relay_ended" not in path.read_text():
                    await asyncio.sleep(0.05)
        trial.lease.raise_failure()


HOSTILE = [b"", b"R 1", b"R 1 5\nab", b"X 1\n", b"R -1 2\nab", b"R 1 99999999999999\n", b"\xff\xfe\n", b"G x\n"]


@pytest.mark.parametrize("output", HOSTILE)
def test_news_that_are_none_are_ignored(output: bytes) -> None:
    assert _news(output) == []
    assert _news(b"R 3 2\nab" + output)[0] == ("R", 3, b"ab")


@pytest.mark.parametrize(
    "data", [b"", b"GET", b"\x00\x01\r\n\r\n", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nab"]
)
def test_bytes_that_are_no_request_are_told_from_one(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse(data)
