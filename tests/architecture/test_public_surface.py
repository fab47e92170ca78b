"""What a package exports is exactly what it says, can be imported, and is documented."""

from __future__ import annotations

import ast
import importlib
from typing import Any

import pytest


def _exported(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return None


def _bound(tree: ast.Module) -> set[str]:
    """Public names that the body of a package's `__init__` binds."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


def _inits(modules: list[Any]) -> dict[str, ast.Module]:
    return {module.name: module.tree for module in modules if module.path.name == "__init__.py"}


def test_backends_states_its_public_surface(modules: list[Any]) -> None:
    assert _exported(_inits(modules)["backends"])


def test_what_a_package_binds_is_what_it_exports(modules: list[Any]) -> None:
    for name, tree in _inits(modules).items():
        exported = _exported(tree)
        if exported is None:
            assert not _bound(tree), f"{name} binds {sorted(_bound(tree))} and states no __all__"
        else:
            assert len(exported) == len(set(exported)), f"{name}.__all__ repeats itself"
            assert set(exported) == _bound(tree), f"{name}.__all__ differs from what it binds"


def test_exports_are_importable_and_documented(modules: list[Any]) -> None:
    for name, tree in _inits(modules).items():
        package = importlib.import_module(name)
        for exported in _exported(tree) or []:
            thing = getattr(package, exported)
            assert not callable(thing) or thing.__doc__, f"{name}.{exported} has no docstring"


def test_every_module_says_what_it_is(modules: list[Any]) -> None:
    wrong = [module.name for module in modules if module.tree.body and not ast.get_docstring(module.tree)]
    assert not wrong, f"no module docstring: {wrong}"


def test_every_public_class_and_function_has_a_docstring(modules: list[Any]) -> None:
    wrong = [
        f"{module.path}:{node.lineno}: {node.name}"
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not _is_conformance_check(node)
    ]
    assert not wrong, "\n".join(wrong)


def _is_conformance_check(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A check's name is the sentence that it proves; it has no more to say."""
    return {ast.unparse(each) for each in node.decorator_list} & {"sandbox_check", "provider_check"} != set()


@pytest.mark.parametrize("package", ["backends", "harness", "evals", "trainer"])
def test_a_package_ships_its_types(package: str, repo: Any) -> None:
    assert (repo / package / "py.typed").is_file()
