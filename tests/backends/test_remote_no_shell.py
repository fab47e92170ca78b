"""A sandbox of a cloud in which no shell starts: told apart from a provider that is in trouble, and from chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import pytest
from builders import CAPABILITIES

from backends.errors import SandboxError, SandboxUnavailable, SandboxUnusable
from backends.frame import Request
from backends.remote.channel import Reply
from backends.remote.lease import Lease
from backends.remote.sandbox import RemoteSandbox

NO_SHELL = Reply(b"/bin/sh: not found\n", 127)
SHELL = Reply(b"alive\n", 0)
TROUBLE = SandboxError("status 502")


class Channel:
    """Answers in order, the last one again and again; alive until it has given so many."""

    id = "c1"

    def __init__(self, answers: Sequence[Reply | SandboxError], *, dies_after: int = 99) -> None:
        self.given = 0
        self._answers = answers
        self._dies_after = dies_after

    async def run(self, request: Request, *, user: str | None, timeout: float) -> Reply:
        answer = self._answers[min(self.given, len(self._answers) - 1)]
        self.given += 1
        if isinstance(answer, SandboxError):
            raise answer
        return answer

    async def put(self, path: str, source: IO[bytes]) -> None: ...

    async def get(self, path: str, target: IO[bytes], *, max_bytes: int) -> None: ...

    async def alive(self) -> bool:
        return self.given < self._dies_after

    async def extend(self, seconds: float) -> None: ...

    async def destroy(self) -> None: ...


def sandbox(channel: Channel) -> RemoteSandbox:
    return RemoteSandbox(
        channel,
        backend="cloud",
        capabilities=CAPABILITIES,
        workdir="/app",
        user="root",
        env={},
        admin=None,
        spared="",
        lease=Lease(channel.extend, ttl=60.0, longest=60.0),
        stopped=lambda: None,
    )


@pytest.mark.parametrize(
    ("answers", "raised"),
    [
        pytest.param([NO_SHELL], SandboxUnusable, id="it lives, and every answer says so"),
        pytest.param([NO_SHELL, NO_SHELL, SHELL], SandboxError, id="a shell starts again"),
        pytest.param([NO_SHELL, NO_SHELL, TROUBLE], SandboxError, id="the provider is in trouble"),
    ],
)
@pytest.mark.parametrize("operation", ["execute", "kill_processes"])
async def test_only_a_live_sandbox_whose_every_answer_lacks_a_shell_is_unusable(
    operation: str, answers: list[Reply | SandboxError], raised: type[SandboxError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.remote.sandbox._PROBE_SEC", 0.0)
    box = sandbox(Channel(answers))
    with pytest.raises(SandboxError) as caught:
        await (box.kill_processes() if operation == "kill_processes" else box.execute("true", timeout=5))
    assert type(caught.value) is raised
    assert caught.value.operation == operation


async def test_one_that_died_meanwhile_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.remote.sandbox._PROBE_SEC", 0.0)
    with pytest.raises(SandboxUnavailable, match="the sandbox is gone"):
        await sandbox(Channel([NO_SHELL], dies_after=2)).execute("true", timeout=5)
