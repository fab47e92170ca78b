"""The `memory` tool: notes in one folder of the sandbox, and nowhere else.

Paths with `..` are refused, and so is whatever lies behind a link: a note must not lead out of the folder. The folder
itself is the task's, and may be a link.
"""

from __future__ import annotations

import posixpath
import shlex

from harness.agents.tool_calling import arguments as args
from harness.agents.tool_calling.tools import MAX_ENTRIES, MAX_READ, Tool, ToolResult, Workbench

_LINK, _ABSENT, _TAKEN = 97, 98, 99
_HELPER_SEC = 30.0
_EMPTY = "(the memory is empty)"


class MemoryRefused(Exception):
    """A call that cannot be: the word and the words for it."""

    def __init__(self, error: str, words: str) -> None:
        super().__init__(words)
        self.error = error


def memory_tool(folder: str) -> Tool:
    """The tool over `folder`, an absolute path."""

    async def run(call: args.Memory, bench: Workbench) -> ToolResult:
        try:
            return ToolResult(content=await _act(call, bench, folder))
        except MemoryRefused as refused:
            return ToolResult(content=f"error: {refused}", error=refused.error)

    return Tool(args.Memory, run, side_by_side=False)


def inside(folder: str, path: str) -> str:
    """The absolute path that a call means. Raises MemoryRefused for one outside of the folder."""
    spelled = path.strip()
    relative = spelled.removeprefix(folder) if spelled == folder or spelled.startswith(f"{folder}/") else spelled
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path or (spelled.startswith("/") and relative is spelled):
        raise MemoryRefused("outside_memory", f"{path[:200]!r} is outside of {folder}")
    return posixpath.join(folder, *parts)


async def _act(call: args.Memory, bench: Workbench, folder: str) -> str:
    path = inside(folder, call.path)
    if call.command == "view":
        return await _view(bench, folder, path, call.view_range)
    if path == folder:
        raise MemoryRefused("bad_path", f"{call.command} needs the path of a note")
    if call.command == "create":
        await _refuse_links(bench, folder, path)
        await bench.sandbox.write(path, call.file_text.encode("utf-8", "replace"))
        return f"wrote {path}"
    if call.command == "delete":
        await _shell(bench, folder, path, f'[ -e "$p" ] || exit {_ABSENT}; rm -rf -- "$p"')
        return f"deleted {path}"
    if call.command == "rename":
        return await _rename(bench, folder, path, inside(folder, call.new_path))
    text = await _text(bench, folder, path)
    changed = _replaced(text, call, path) if call.command == "str_replace" else _inserted(text, call)
    await bench.sandbox.write(path, changed.encode("utf-8", "replace"))
    return f"changed {path}"


async def _view(bench: Workbench, folder: str, path: str, lines: tuple[int, int] | None) -> str:
    listing = f'[ -d "$p" ] || exit {_ABSENT}; cd -- "$p" && find . -type f | LC_ALL=C sort | head -n {MAX_ENTRIES + 1}'
    try:
        found = await _shell(bench, folder, path, listing)
    except MemoryRefused as refused:
        if refused.error != "not_found":
            raise
        if path == folder:
            return _EMPTY
        text = await _text(bench, folder, path)
        if lines is None:
            return text
        first, last = lines
        return "".join(text.splitlines(keepends=True)[max(0, first - 1) : None if last < 0 else last])
    names = [posixpath.normpath(posixpath.join(path, name)) for name in found.splitlines() if name]
    more = [f"[only the first {MAX_ENTRIES} are shown]"] if len(names) > MAX_ENTRIES else []
    return "\n".join([*names[:MAX_ENTRIES], *more]) or _EMPTY


async def _rename(bench: Workbench, folder: str, path: str, target: str) -> str:
    if target == folder or target.startswith(f"{path}/"):
        raise MemoryRefused("bad_path", "rename needs new_path, the path of a note that does not exist")
    await _refuse_links(bench, folder, target)
    script = (
        f'[ -e "$p" ] || exit {_ABSENT}; t={shlex.quote(target)}; [ ! -e "$t" ] || exit {_TAKEN}; '
        'mkdir -p -- "${t%/*}" && mv -- "$p" "$t"'
    )
    await _shell(bench, folder, path, script)
    return f"renamed {path} to {target}"


async def _text(bench: Workbench, folder: str, path: str) -> str:
    await _refuse_links(bench, folder, path)
    data = await bench.sandbox.read(path, max_bytes=MAX_READ + 1)
    if len(data) > MAX_READ:
        raise MemoryRefused("too_large", f"{path} is larger than {MAX_READ} bytes")
    return data.decode("utf-8", "replace")


def _replaced(text: str, call: args.Memory, path: str) -> str:
    found = text.count(call.old_str) if call.old_str else 0
    if found != 1:
        raise MemoryRefused("no_unique_match", f"the old text occurs {found} times in {path}, and must occur once")
    return text.replace(call.old_str, call.new_str)


def _inserted(text: str, call: args.Memory) -> str:
    lines = text.splitlines(keepends=True)
    if call.insert_line > len(lines):
        raise MemoryRefused("bad_line", f"there is no line {call.insert_line}: the note has {len(lines)}")
    before, after = lines[: call.insert_line], lines[call.insert_line :]
    if before and not before[-1].endswith("\n"):
        before.append("\n")
    added = call.insert_text if call.insert_text.endswith("\n") or not call.insert_text else f"{call.insert_text}\n"
    return "".join([*before, added, *after])


async def _refuse_links(bench: Workbench, folder: str, path: str) -> None:
    await _shell(bench, folder, path, ":")


async def _shell(bench: Workbench, folder: str, path: str, script: str) -> str:
    """Run a script on the path `$p`, once no part of it below the folder is a link; what it printed."""
    parts = path.removeprefix(folder).strip("/").split("/")
    walk = " ".join(map(shlex.quote, filter(None, parts)))
    command = (
        f'p={shlex.quote(folder)}\nfor part in {walk}; do p="$p/$part"; [ -L "$p" ] && exit {_LINK}; done\n{script}'
    )
    done = await bench.sandbox.execute(command, timeout=_HELPER_SEC, cwd="/", user=bench.user)
    if done.exit_code == _LINK:
        raise MemoryRefused("outside_memory", f"{path} goes through a link")
    if done.exit_code == _ABSENT:
        raise MemoryRefused("not_found", f"no such note: {path}")
    if done.exit_code == _TAKEN:
        raise MemoryRefused("exists", "there is already something at new_path")
    if done.exit_code != 0:
        raise MemoryRefused("failed", f"{path}: {done.output.strip()[-200:] or 'could not be changed'}")
    return done.stdout.decode("utf-8", "replace")
