"""Agents by name: a table of harness.toml, a built-in, a plugin, or `module:Class`, in that order.

A built-in's module is imported only when it is asked for. Plugins register under the entry-point group
`harness.agents`; they, and classes named as `module:Class`, are called with their options as keyword arguments.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from harness.agents.config_file import AgentTable, find_config, read_agent_tables
from harness.agents.protocol import Agent
from harness.agents.spec import AgentSpec
from harness.errors import UsageError
from harness.llm.protocol import ChatModel

ENTRY_POINT_GROUP = "harness.agents"


@dataclass(frozen=True, slots=True)
class AgentRow:
    """Where a built-in lives: its module, its settings' class, and what makes it from them and its name."""

    module: str
    config: str
    create: str


BUILT_IN: dict[str, AgentRow] = {
    "oracle": AgentRow("harness.agents.oracle", "OracleConfig", "create_oracle"),
    "nop": AgentRow("harness.agents.nop", "NopConfig", "create_nop"),
    "replay": AgentRow("harness.agents.replay", "ReplayConfig", "create_replay"),
    "scripted": AgentRow("harness.agents.tool_calling.create", "ScriptedConfig", "create_scripted"),
    "tool_calling": AgentRow("harness.agents.tool_calling.create", "ToolCallingConfig", "create_tool_calling"),
}


def agent_names(config: Path | None = None) -> list[str]:
    """All names that can be asked for here."""
    plugins = (point.name for point in entry_points(group=ENTRY_POINT_GROUP))
    return sorted({*BUILT_IN, *plugins, *_tables(config)})


def create_agent(
    name: str,
    *,
    model: str | None = None,
    config: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> Agent:
    """The agent called `name`.

    Args:
        name: a table of harness.toml, a built-in, a plugin, or `module:Class`.
        model: replaces the agent's model.
        config: the harness.toml; None looks for one in the current folder and above.
        options: override single settings; a dotted key reaches into a table, e.g. `parameters.temperature`.

    Raises UsageError with one line for an unknown name, a wrong setting, or something missing here.
    """
    return resolve_agent(name, model=model, config=config, options=options).make()


def create_model(name: str, *, config: Path | None = None) -> ChatModel:
    """The model behind the agent called `name`. Raises UsageError, also for an agent that has none."""
    model = getattr(create_agent(name, config=config), "model", None)
    if model is None:
        raise UsageError(f"agent {name!r} has no model to speak for a user; name an agent of type tool_calling")
    return cast("ChatModel", model)


def agent_config(
    name: str,
    *,
    model: str | None = None,
    config: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The resolved settings of that agent as JSON, for records and for comparing runs. Raises UsageError."""
    return resolve_agent(name, model=model, config=config, options=options).describe()


def resolve_agent(
    name: str,
    *,
    model: str | None = None,
    config: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> AgentSpec:
    """Find the agent and check its settings. Raises UsageError."""
    tables = _tables(config)
    table = tables.get(name)
    where = table.where if table else f"agent {name!r}"
    fields = dict(table.fields) if table else {}
    kind = fields.pop("type", name)
    if not isinstance(kind, str):
        raise UsageError(f"{where}: type must be a string")
    if table and kind in BUILT_IN:
        fields = _paths_from(table.file.parent, fields, kind)
    for key, value in (options or {}).items():
        _set(fields, key, value, where)
    if model is not None:
        fields["model"] = model
    if kind in BUILT_IN:
        return _built_in(name, kind, fields, where)
    plugin = next((point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == kind), None)
    if plugin is not None:
        return _called(name, kind, plugin.load(), fields, where)
    if ":" in kind:
        return _called(name, kind, _import(kind, where), fields, where)
    raise UsageError(_unknown(kind, where if table else "", agent_names(config)))


def _tables(config: Path | None) -> dict[str, AgentTable]:
    file = config or find_config(Path.cwd())
    return read_agent_tables(file) if file else {}


def _set(fields: dict[str, Any], dotted: str, value: Any, where: str) -> None:
    *outer, last = dotted.split(".")
    for key in outer:
        inner = fields.get(key, {})
        if not isinstance(inner, dict):
            raise UsageError(f"{where}: {key} is not a table, so {dotted} cannot be set")
        inner = dict(inner)
        fields[key] = inner
        fields = inner
    fields[last] = value


def _schema(kind: str) -> type[BaseModel]:
    row = BUILT_IN[kind]
    return getattr(importlib.import_module(row.module), row.config)  # type: ignore[no-any-return]


def _paths_from(folder: Path, fields: dict[str, Any], kind: str) -> dict[str, Any]:
    """The fields of a file's table, in which relative paths start from the file's folder."""
    paths = {key for key, field in _schema(kind).model_fields.items() if field.annotation is Path}
    return {
        key: str(folder / value) if key in paths and isinstance(value, str) else value for key, value in fields.items()
    }


def _built_in(name: str, kind: str, fields: dict[str, Any], where: str) -> AgentSpec:
    row, schema = BUILT_IN[kind], _schema(kind)
    if "model" in fields and "model" not in schema.model_fields:
        raise UsageError(f"{where}: {kind} has no model")
    try:
        settings = schema.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{where}: {_problem(error, list(schema.model_fields))}") from error
    create = getattr(importlib.import_module(row.module), row.create)
    return AgentSpec(name=name, type=kind, settings=settings, make=lambda: create(settings, name))


def _problem(error: ValidationError, known: list[str]) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
        return f"unknown key {key!r}; {hint}"
    if first["type"] == "missing":
        return f"{key!r} must be set (in harness.toml, or by -o {key}=...)"
    return f"{key}: {first['msg']}"


def _import(target: str, where: str) -> Callable[..., Any]:
    """What `module:Class` names; modules in the current folder are found, too."""
    module_name, _, attribute = target.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, SyntaxError) as error:
        raise UsageError(f"{where}: cannot import {module_name!r}: {error}") from error
    except AttributeError as error:
        raise UsageError(f"{where}: module {module_name!r} has no {attribute!r}") from error
    if not callable(found):
        raise UsageError(f"{where}: {target} is not a class")
    return found  # type: ignore[no-any-return]


def _called(name: str, kind: str, factory: Callable[..., Any], fields: dict[str, Any], where: str) -> AgentSpec:
    with contextlib.suppress(ValueError):  # builtins tell no signature
        try:
            inspect.signature(factory).bind(**fields)
        except TypeError as error:
            raise UsageError(f"{where}: {kind} does not take these options: {error}") from error

    def make() -> Agent:
        agent = factory(**fields)
        missing = [part for part in ("name", "version", "model_name", "run", "close") if not hasattr(agent, part)]
        if missing:
            raise UsageError(f"{where}: {kind} is no agent: it lacks {', '.join(missing)}")
        return agent  # type: ignore[no-any-return]

    return AgentSpec(name=name, type=kind, settings=fields, make=make)


def _unknown(kind: str, where: str, known: list[str]) -> str:
    close = difflib.get_close_matches(kind, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{where + ': ' if where else ''}unknown agent {kind!r}{hint} (known: {', '.join(known)}, or module:Class)"
