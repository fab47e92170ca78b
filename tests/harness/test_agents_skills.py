"""Skills: what is told of them, however odd or hostile the files are."""

from __future__ import annotations

from pathlib import Path

import pytest
from folder_sandbox import FolderSandbox
from hypothesis import given
from hypothesis import strategies as st

from harness.agents.tool_calling.skills import (
    MAX_DESCRIPTION,
    MAX_NAME,
    MAX_SKILLS,
    Skill,
    find_skills,
    front_matter,
    parse_skill,
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("---\nname: a\ndescription: Does b: c.\n---\n# Body\nname: no\n", {"name": "a", "description": "Does b: c."}),
        ("---\r\nname: 'quoted'\r\n---\r\n", {"name": "quoted"}),
        ("---\nDescription: >-\n  one\n  two\n\nname: x\n---\n", {"description": "one two", "name": "x"}),
        ("---\nlist:\n  - a\n  - b\nname:\n---\n", {"list": "- a - b", "name": ""}),
        ("---\nname: never closed\n", {}),
        ("# No front matter\n---\nname: x\n---\n", {}),
        ("", {}),
    ],
)
def test_front_matter_is_read_as_far_as_it_is_simple(text: str, fields: dict[str, str]) -> None:
    assert front_matter(text) == fields


def test_a_skill_without_a_name_is_called_like_its_folder() -> None:
    assert parse_skill("text", "/skills/csv/SKILL.md") == Skill("csv", "", "/skills/csv/SKILL.md")


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_name_and_a_description_are_each_one_bounded_printable_line(name: str, description: str) -> None:
    skill = parse_skill(f"---\nname: {name}\ndescription: {description * 20}\n---\n", "/s/x/SKILL.md")
    assert 0 < len(skill.name) <= MAX_NAME and len(skill.description) <= MAX_DESCRIPTION
    assert skill.name.isprintable() and skill.description.isprintable()


async def test_only_so_many_are_told_and_what_is_no_skill_is_passed_over(tmp_path: Path) -> None:
    for number in range(MAX_SKILLS + 5):
        folder = tmp_path / "skills" / f"s{number:03}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\ndescription: Number {number}.\n---\n" + "x" * 100_000)
    (tmp_path / "skills" / "README.md").write_text("no folder")
    (tmp_path / "skills" / "a-folder").mkdir()
    (tmp_path / "skills" / "as-a-folder" / "SKILL.md").mkdir(parents=True)
    skills = await find_skills(FolderSandbox(tmp_path), "/skills")
    assert len(skills) == MAX_SKILLS
    assert skills[0] == Skill("s000", "Number 0.", "/skills/s000/SKILL.md")


async def test_a_folder_that_is_not_there_has_no_skills(tmp_path: Path) -> None:
    assert await find_skills(FolderSandbox(tmp_path), "/skills") == []
