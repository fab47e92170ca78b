"""The committed text speaks of the product alone, and its case markers name catalogued cases."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from cases import catalogue, marked

CASE_IDS = catalogue().keys()

# Assembled from halves, so that this file passes its own test.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
SOMEBODYS_MACHINE = re.compile(r"/(?:work|Users|home/\w+)" r"/(?:main|wt|shared|src|code|projects)\b|/root/\." r"pyenv")
AUTHORSHIP = re.compile(
    r"(?i)co-authored" r"-by|generated (?:by|with) (?:an? )?(?:ai|llm|claude|gpt)" r"\b|claude" r" code session"
)


@pytest.fixture(scope="module")
def texts(repo: Path) -> dict[Path, str]:
    """Every committed text file."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=repo, check=False, capture_output=True, text=True
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    found: dict[Path, str] = {}
    for name in filter(None, listing.stdout.split("\0")):
        path = repo / name
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if b"\0" not in data:
                found[path] = data.decode("utf-8", "replace")
    return found


@pytest.mark.parametrize(
    "pattern", [UNFINISHED, SOMEBODYS_MACHINE, AUTHORSHIP], ids=["unfinished", "machine", "author"]
)
def test_no_file_speaks_of_anything_but_the_product(pattern: re.Pattern[str], texts: dict[Path, str]) -> None:
    wrong = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_names_the_folder_it_was_checked_out_to(repo: Path, texts: dict[Path, str]) -> None:
    if len(repo.parts) < 3:
        pytest.skip("the checkout's path is too short to tell")
    assert not [path for path, text in texts.items() if f"{repo}/" in text]


def test_case_markers_name_catalogued_cases(texts: dict[Path, str]) -> None:
    wrong = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, text in texts.items()
        if path.suffix == ".py" and path.name.startswith("test_")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.case"
        if not node.args or node.keywords or not all(_is_case_id(argument) for argument in node.args)
    ]
    assert not wrong, "\n".join(wrong)


def _is_case_id(argument: ast.expr) -> bool:
    if isinstance(argument, ast.Subscript):  # a table of the file's own, whose values pytest itself shows
        return ast.unparse(argument.value) == "CASES"
    if not isinstance(argument, ast.Constant):
        return False
    return argument.value in CASE_IDS


def test_every_catalogued_trouble_has_a_test() -> None:
    assert len(CASE_IDS) == 105
    assert CASE_IDS - marked().keys() == set()


def test_test_files_have_unique_names(repo: Path) -> None:
    names = [path.name for path in (repo / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names), "importlib mode needs every test file's name once"
