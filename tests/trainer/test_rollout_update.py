"""New weights in three servers, through one interface: ours, and loopback servers that speak as vLLM and SGLang do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from served_policy import KEY, Asked, checkpoint, serving_policy, tiny

from harness.errors import UsageError
from trainer.rollout.update import HarnessServer, ServerAddress, Sglang, UpdateFailed, Vllm, WeightUpdate

Answers = Mapping[str, Callable[[Any], tuple[int, Any]]]


class Recorded:
    """A server that answers by path, and remembers what it was asked: (path with query, body, key)."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any, str | None]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.asked.append((request.path_qs, body, request.headers.get("authorization")))
        answer = self.answers.get(request.path)
        if answer is None:
            return web.json_response({"detail": "Not Found"}, status=404)
        status, told = answer(body)
        return web.Response(status=status) if told is None else web.json_response(told, status=status)


@contextlib.asynccontextmanager
async def speaking(answers: Answers) -> AsyncIterator[Recorded]:
    recorded = Recorded(answers)
    app = web.Application()
    app.router.add_route("POST", "/{path:.*}", recorded.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    recorded.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield recorded
    finally:
        await runner.cleanup()


def vllm(**changed: Callable[[Any], tuple[int, Any]]) -> Answers:
    """As its development mode answers."""
    return {
        "/pause": lambda _: (200, {"status": "paused"}),
        "/collective_rpc": lambda _: (200, {"results": [None]}),
        "/reset_prefix_cache": lambda _: (200, None),
        "/resume": lambda _: (200, {"status": "resumed"}),
        **{f"/{path}": answer for path, answer in changed.items()},
    }


def sglang(update: Callable[[Any], tuple[int, Any]]) -> Answers:
    """As it answers."""
    return {
        "/update_weights_from_disk": update,
        "/pause_generation": lambda _: (200, {"status": "ok"}),
        "/continue_generation": lambda _: (200, {"status": "ok"}),
    }


async def test_our_server_samples_with_what_it_was_given(tmp_path: Path) -> None:
    async with serving_policy(tiny()) as served:
        update: WeightUpdate = HarnessServer(ServerAddress(url=served.url, key=KEY))
        await update.load(checkpoint(tmp_path / "new", seed=5), "step-1")
        generation = await asyncio.to_thread(Asked(served.engine, [1, 2], max_tokens=3).result)
        assert generation.versions == [("step-1", 3)]
        with pytest.raises(UpdateFailed, match=r"answered 400: weights: .*holds no weights"):
            await update.load(tmp_path, "step-2")
        with pytest.raises(UpdateFailed, match="answered 401: the key is wrong"):
            await HarnessServer(ServerAddress(url=served.url, key="other")).load(tmp_path, "step-2")
        assert served.engine.version == "step-1"


@pytest.mark.parametrize(("on_update", "mode"), [("finish", "wait"), ("continue", "keep")])
async def test_vllm_is_paused_reads_the_folder_and_goes_on(on_update: Any, mode: str) -> None:
    async with speaking(vllm()) as server:
        update: WeightUpdate = Vllm(ServerAddress(url=server.url, key="k"), on_update=on_update)
        await update.load(Path("/ckpt/7"), "7")
    assert [(path, body) for path, body, _ in server.asked] == [
        (f"/pause?mode={mode}", None),
        ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": "/ckpt/7"}}),
        ("/reset_prefix_cache", None),
        ("/update_weight_version", {"new_version": "7"}),  # which older ones do not know
        ("/resume", None),
    ]
    assert {key for _, _, key in server.asked} == {"Bearer k"}


async def test_vllm_goes_on_after_a_folder_that_it_cannot_read() -> None:
    async with speaking(vllm(collective_rpc=lambda _: (500, {"error": {"message": "no such folder"}}))) as server:
        with pytest.raises(UpdateFailed, match="collective_rpc answered 500: no such folder"):
            await Vllm(ServerAddress(url=server.url)).load(Path("/ckpt/7"), "7")
    assert [path for path, _, _ in server.asked][-1] == "/resume"


async def test_sglang_is_told_the_folder_and_the_version() -> None:
    done = {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}
    async with speaking(sglang(lambda _: (200, done))) as server:
        update: WeightUpdate = Sglang(ServerAddress(url=server.url))
        await update.load(Path("/ckpt/7"), "7")
        await Sglang(ServerAddress(url=server.url), on_update="continue").load(Path("/ckpt/8"), "8")
    told = {"model_path": "/ckpt/7", "weight_version": "7", "flush_cache": True}
    assert [(path, body) for path, body, _ in server.asked] == [
        ("/update_weights_from_disk", told),
        ("/pause_generation", {"mode": "retract"}),
        ("/update_weights_from_disk", {**told, "model_path": "/ckpt/8", "weight_version": "8"}),
        ("/continue_generation", {}),
    ]


@pytest.mark.parametrize("status", [200, 400])
async def test_sglangs_refusal_is_told_whatever_its_status(status: int) -> None:
    refusal = {"success": False, "message": "Failed to update: no such folder"}
    async with speaking(sglang(lambda _: (status, refusal))) as server:
        with pytest.raises(UpdateFailed, match="no such folder"):
            await Sglang(ServerAddress(url=server.url), on_update="continue").load(Path("/ckpt/7"), "7")
    assert [path for path, _, _ in server.asked][-1] == "/continue_generation"


async def test_a_server_that_is_not_there_or_never_answers_is_a_failure_of_the_update() -> None:
    with pytest.raises(UpdateFailed, match="cannot be reached"):
        await HarnessServer(ServerAddress(url="http://127.0.0.1:9/v1")).load(Path("/ckpt"), "1")

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(UpdateFailed, match=r"did not answer within 0\.2 s") as failure:
            await HarnessServer(ServerAddress(url=url, timeout_sec=0.2)).load(Path("/ckpt"), "1")
    assert failure.value.unknown
    with pytest.raises(UsageError, match="begins with http"):
        HarnessServer(ServerAddress(url="localhost:8000"))


def test_a_key_is_in_no_repr() -> None:
    assert "secret" not in repr(ServerAddress(url="http://h", key="secret"))
