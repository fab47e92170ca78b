"""The memory tool in a real sandbox: what it does, and that it never leaves its folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.local.provider import LocalProvider
from backends.protocol import SandboxBackendProtocol
from backends.spec import SandboxSpec
from harness.agents.tool_calling.arguments import Memory
from harness.agents.tool_calling.memory import MemoryRefused, inside, memory_tool
from harness.agents.tool_calling.tools import ToolLimits, ToolResult, Workbench, run_tool


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[SandboxBackendProtocol]:
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm-slim\nWORKDIR /app\n")
    box = await LocalProvider().start(SandboxSpec(build_dir=tmp_path))
    yield box
    await box.stop()


async def act(sandbox: SandboxBackendProtocol, command: str, path: str = "", **fields: Any) -> ToolResult:
    bench = Workbench(sandbox=sandbox, limits=ToolLimits(), time_left=lambda: 60.0)
    call = Memory.model_validate({"command": command, "path": path, **fields})
    return await run_tool(memory_tool("/memory"), call, bench)


async def test_notes_are_written_listed_read_changed_moved_and_deleted(sandbox: SandboxBackendProtocol) -> None:
    assert (await act(sandbox, "view")).content == "(the memory is empty)"
    assert (await act(sandbox, "create", "a.md", file_text="one\ntwo\n")).error is None
    assert (await act(sandbox, "create", "/memory/sub/it's b.md", file_text="")).error is None
    assert (await act(sandbox, "view")).content == "/memory/a.md\n/memory/sub/it's b.md"
    assert (await act(sandbox, "str_replace", "a.md", old_str="two", new_str="2")).error is None
    assert (await act(sandbox, "insert", "a.md", insert_line=1, insert_text="half")).error is None
    assert (await act(sandbox, "view", "./a.md")).content == "one\nhalf\n2\n"
    assert (await act(sandbox, "view", "a.md", view_range=[2, -1])).content == "half\n2\n"
    assert (await act(sandbox, "rename", "a.md", new_path="new/c.md")).error is None
    assert (await act(sandbox, "delete", "sub")).error is None
    assert (await act(sandbox, "view", "/memory")).content == "/memory/new/c.md"


async def test_what_cannot_be_done_is_explained(sandbox: SandboxBackendProtocol) -> None:
    await act(sandbox, "create", "a.md", file_text="x x\n")
    await act(sandbox, "create", "b.md", file_text="")
    refusals = [
        await act(sandbox, "view", "nothing.md"),
        await act(sandbox, "delete", "nothing.md"),
        await act(sandbox, "str_replace", "a.md", old_str="x", new_str="y"),
        await act(sandbox, "insert", "a.md", insert_line=5, insert_text="y"),
        await act(sandbox, "rename", "a.md", new_path="b.md"),
        await act(sandbox, "rename", "a.md"),
        await act(sandbox, "create", "", file_text="x"),
        await act(sandbox, "delete", "/memory"),
    ]
    errors = ["not_found", "not_found", "no_unique_match", "bad_line", "exists", "bad_path", "bad_path", "bad_path"]
    assert [result.error for result in refusals] == errors
    assert all(result.content.startswith("error: ") for result in refusals)


@pytest.mark.parametrize("path", ["../etc/passwd", "/etc/passwd", "a/../../b", "/memory/../etc", "/memoryx", "..", "/"])
async def test_a_path_out_of_the_folder_is_refused(sandbox: SandboxBackendProtocol, path: str) -> None:
    for command in ("view", "create", "delete", "str_replace", "insert", "rename"):
        assert (await act(sandbox, command, path)).error == "outside_memory"
    await act(sandbox, "create", "note")
    assert (await act(sandbox, "rename", "note", new_path=path)).error == "outside_memory"


async def test_a_link_in_the_folder_leads_nowhere(sandbox: SandboxBackendProtocol) -> None:
    plant = "mkdir -p /memory && echo secret > /app/f && ln -s /app /memory/dir && ln -s /app/f /memory/file"
    assert (await sandbox.execute(plant, timeout=10)).exit_code == 0
    for path in ("dir", "file", "dir/f", "dir/new"):
        for command in ("view", "create", "delete", "insert", "rename"):
            assert (await act(sandbox, command, path, new_path="moved")).error == "outside_memory", (command, path)
    await act(sandbox, "create", "note", file_text="n")
    assert (await act(sandbox, "rename", "note", new_path="dir/note")).error == "outside_memory"
    assert (await sandbox.read("/app/f")) == b"secret\n"
    assert [entry.path for entry in await sandbox.ls("/app")] == ["/app/f"]
    assert (await act(sandbox, "view")).content == "/memory/note"


@given(st.text(alphabet="./ab m\0-", max_size=20))
def test_whatever_is_asked_for_lies_in_the_folder(path: str) -> None:
    try:
        found = inside("/m", path)
    except MemoryRefused:
        return
    assert found == "/m" or found.startswith("/m/")
    assert ".." not in found.split("/")
