"""The source as data: every module of the four packages, parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
PACKAGES = ("backends", "harness", "evals", "trainer")


@dataclass(frozen=True, slots=True)
class Module:
    """One module: its dotted name, its file, and its syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        """The top-level package."""
        return self.name.partition(".")[0]

    def imports(self) -> Iterator[str]:
        """Dotted names of all that it imports: inside functions and for type checking, too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno}: relative import"
                assert node.module is not None
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _parse(path: Path) -> Module:
    parts = path.relative_to(REPO).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, path, ast.parse(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout."""
    return REPO


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    """Every module of the four packages; the tasks of bundled suites are data."""
    files = (path for package in PACKAGES for path in sorted((REPO / package).rglob("*.py")))
    return [_parse(path) for path in files if not _belongs_to_a_task(path)]


def _belongs_to_a_task(path: Path) -> bool:
    return any((folder / "task.toml").is_file() for folder in path.parents)
