"""Programs that come described: one TOML file each, in the words of a table of `harness.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_FOLDER = files("harness.agents.cli_native").joinpath("presets")


@cache
def preset_names() -> tuple[str, ...]:
    """All of them, by name."""
    return tuple(sorted(each.name.removesuffix(".toml") for each in _FOLDER.iterdir() if each.name.endswith(".toml")))


def read_preset(name: str) -> dict[str, Any]:
    """The fields of one."""
    return tomllib.loads(_FOLDER.joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def over(preset: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """A user's fields over those of a preset; of tables, each value by itself."""
    merged = {**preset, **fields}
    for key, value in fields.items():
        under = preset.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[key] = {**under, **value}
    return merged
