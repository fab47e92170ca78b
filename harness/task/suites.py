"""The suites that are shipped as data of the `evals` package, which is never imported for them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def bundled_suites() -> dict[str, Path]:
    """Every bundled suite's folder by its name, sorted; empty where `evals` is not installed."""
    spec = find_spec("evals")
    roots = [Path(place) / "suites" for place in (spec.submodule_search_locations or [])] if spec else []
    folders = (path for root in roots if root.is_dir() for path in root.iterdir())
    return {path.name: path for path in sorted(folders) if path.is_dir() and not path.name.startswith((".", "_"))}
