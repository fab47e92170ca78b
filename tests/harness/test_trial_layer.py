"""An agent's program where the backend's images have no layers: installed once, and unpacked into each sandbox."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from local_boxes import local_provider, plain_spec

from backends.errors import SandboxLayerError
from backends.lifecycle import JOB, OWNER, open_sandbox, owner_label
from backends.protocol import SandboxProvider
from backends.spec import Layer, SandboxSpec
from harness.trial.layer import kept_layer, put_layer
from harness.trial.limits import TrialLimits

LIMITS = TrialLimits()
MINE = f"layers-{secrets.token_hex(4)}"


@pytest.fixture
async def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SandboxProvider]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    async with local_provider() as provider:
        yield provider


@pytest.fixture
def request_of(tmp_path: Path) -> SandboxSpec:
    return plain_spec(tmp_path, labels={OWNER: owner_label(), JOB: MINE})


def tool(script: str, **fields: object) -> Layer:
    return Layer(**{"name": "tool 1", "script": script, "folders": ("/opt/tool",), **fields})  # type: ignore[arg-type]


async def test_a_layer_is_installed_once_for_all_who_wait_and_unpacked_into_each_sandbox(
    provider: SandboxProvider, request_of: SandboxSpec, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_text("trusted\n")
    script = "mkdir -p /opt/tool; cat ca.crt > /opt/tool/out; echo $WHO >> /opt/tool/out; date +%N >> /opt/tool/out"
    layer = tool(script, env={"WHO": "me"}, files={"ca.crt": tmp_path / "ca.crt"})
    made = await asyncio.gather(*(kept_layer(provider, request_of, layer, LIMITS) for _ in range(3)))
    assert len(set(made)) == 1 and made[0].is_file()
    said = set()
    for _ in range(2):
        async with open_sandbox(provider, request_of) as box:
            await put_layer(box, made[0], timeout=30)
            said.add((await box.execute("cat /opt/tool/out; ls -A /tmp", timeout=10)).output)
    assert len(said) == 1 and said.pop().startswith("trusted\nme\n")
    assert await provider.list({JOB: MINE}) == []


async def test_a_layer_that_fails_says_its_last_line_and_leaves_nothing(
    provider: SandboxProvider, request_of: SandboxSpec, tmp_path: Path
) -> None:
    with pytest.raises(SandboxLayerError, match=r"^tool 1 could not be installed: no such package$"):
        await kept_layer(provider, request_of, tool("echo no such package; exit 3"), LIMITS)
    with pytest.raises(SandboxLayerError, match="no end after 1 s"):
        await kept_layer(provider, request_of, tool("sleep 60", timeout_sec=1.0), LIMITS)
    assert await provider.list({JOB: MINE}) == []
    assert not list((tmp_path / "cache").rglob("*.gz*"))


def test_different_images_and_different_scripts_are_kept_apart(request_of: SandboxSpec, tmp_path: Path) -> None:
    from harness.trial.layer import _key

    other = SandboxSpec(image="debian:bookworm-slim")
    keys = [_key("local", request_of, tool("a")), _key("local", other, tool("a")), _key("local", other, tool("b"))]
    assert len({*keys, _key("modal", other, tool("a"))}) == 4
