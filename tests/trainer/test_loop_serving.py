"""The policy's server as a process of the loop's: new weights reach it, and so they do where it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from trainer.online.config import ServeConfig
from trainer.online.serving import PolicyServer, ServerDied, policy_server
from trainer.policy.tiny import save_tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def ask(url: str) -> dict[str, Any]:
    body = {"model": "policy", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found | {"header": answer.headers.get("x-policy-version")}


def version_of(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0].get("policy_version") or answer.get("policy_version") or answer["header"])


async def test_new_weights_reach_a_server_and_one_that_was_killed_comes_back_with_them(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        save_tiny(tmp_path / str(seed), seed=seed, width=16, heads=2)
    async with policy_server(ServeConfig(), "policy", tmp_path / "log", 0, tmp_path / "0") as server:
        assert version_of(await asyncio.to_thread(ask, server.url)) == "0"
        await server.publish(1, tmp_path / "1")
        assert version_of(await asyncio.to_thread(ask, server.url)) == "1"
        url = server.url
        _kill(server)
        await server.publish(2, tmp_path / "2")
        assert server.url == url
        assert version_of(await asyncio.to_thread(ask, url)) == "2"


async def test_a_server_that_does_not_start_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(ServerDied, match=r"does not start: error: .*nowhere: there is no such folder"):
        async with policy_server(ServeConfig(), "policy", tmp_path / "log", 0, tmp_path / "nowhere"):
            pass


async def test_a_server_that_cannot_be_started_again_is_told_and_not_waited_for(tmp_path: Path) -> None:
    save_tiny(tmp_path / "0", width=16, heads=2)
    log = tmp_path / "log"
    async with policy_server(ServeConfig(), "policy", log, 0, tmp_path / "0") as server:
        log.unlink()
        log.mkdir()
        _kill(server)
        with pytest.raises(ServerDied, match=r"does not start: .*Is a directory"):
            async with asyncio.timeout(60):
                await server.publish(1, tmp_path / "0")


def _kill(server: PolicyServer) -> None:
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGKILL)
