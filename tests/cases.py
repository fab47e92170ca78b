"""Which test answers for which reported trouble: the catalogue is cases.toml, the markers are in the tests.

`python tests/cases.py` prints it.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent


def catalogue() -> dict[str, str]:
    """Every case's title by its id."""
    tables = tomllib.loads((TESTS / "cases.toml").read_text(encoding="utf-8"))
    return {name: title for table in tables.values() for name, title in table.items()}


def marked() -> dict[str, list[str]]:
    """The tests that name a case, by its id."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        cases = _table(tree)
        where = str(path.relative_to(TESTS.parent))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign):
                name = "" if isinstance(node, ast.Assign) else f"::{node.name}"
                parts = [node.value] if isinstance(node, ast.Assign) else node.decorator_list
                for each in {case for part in parts for case in _named(part, cases)}:
                    found[each].append(where + name)
    return dict(found)


def _named(node: ast.expr, table: list[str]) -> list[str]:
    """The ids in the `pytest.mark.case(...)` calls of an expression."""
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    arguments = [part for each in calls if ast.unparse(each.func) == "pytest.mark.case" for part in each.args]
    names = [str(each.value) for each in arguments if isinstance(each, ast.Constant)]
    return names + (table if any(isinstance(each, ast.Subscript) for each in arguments) else [])


def _table(tree: ast.Module) -> list[str]:
    """The ids of a file's own table `CASES`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CASES":
            return [str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
    return []


if __name__ == "__main__":
    tests = marked()
    for case, title in catalogue().items():
        print(f"{case}  {title}")
        for test in tests.get(case, ["none"]):
            print(f"      {test}")
