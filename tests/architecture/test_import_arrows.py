"""The arrows between packages, and the order inside harness: they run one way."""

from __future__ import annotations

from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pytest

MAY_IMPORT = {
    "backends": {"backends"},
    "harness": {"harness", "backends"},
    "evals": {"evals", "harness", "backends"},
    "trainer": {"trainer"},
}
TRAINER_MAY_READ = (
    "harness.__version__",
    "harness.errors",
    "harness.export",
    "harness.loopback",
    "harness.store.files",
)
"""Of harness, the trainer knows the export, how files are written, what a wrong request is, and how to serve."""

LOOP_MAY_RUN = ("harness", "backends.protocol")
"""The closed loop, `trainer.online`, runs jobs: it sits above the harness, like a user's program."""

_TRAINER_PREFIXES = tuple(f"{name}." for name in TRAINER_MAY_READ)
_LOOP_PREFIXES = tuple(f"{name}." for name in LOOP_MAY_RUN)

RANKS = (
    {"errors", "loopback", "packed", "redaction", "strict_json"},
    {"atif", "llm", "task", "failures"},
    {"records", "behaviour"},
    {"agents", "proxy", "store"},
    {"trial", "export"},
    {"job", "tracing"},
    {"cli"},
)
RANK = {unit: rank for rank, units in enumerate(RANKS) for unit in units}
"""A unit imports units of its own rank or below, and no two units import each other."""

BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "managers", "manager", "misc"}


@pytest.fixture(scope="module")
def arrows(modules: list[Any]) -> list[tuple[str, str]]:
    """Pairs (module, what it imports) within the four packages."""
    return [(module.name, target) for module in modules for target in module.imports() if _top(target) in MAY_IMPORT]


def _top(name: str) -> str:
    return name.partition(".")[0]


def _unit(name: str) -> str | None:
    """The part of harness that a dotted name belongs to; None for the package itself (its version)."""
    _, _, rest = name.partition(".")
    return rest.partition(".")[0] or None


def test_packages_import_only_what_lies_below_them(arrows: list[tuple[str, str]]) -> None:
    wrong = [
        f"{module} imports {target}"
        for module, target in arrows
        if _top(target) not in MAY_IMPORT[_top(module)]
        and not (_top(module) == "trainer" and f"{target}.".startswith(_TRAINER_PREFIXES))
        and not (module.startswith("trainer.online.") and f"{target}.".startswith(_LOOP_PREFIXES))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_part_of_harness_has_a_place_in_the_order(modules: list[Any]) -> None:
    units = {_unit(module.name) for module in modules if module.package == "harness"} - {None}
    assert units <= RANK.keys(), f"give these a rank: {sorted(map(str, units - RANK.keys()))}"


def test_parts_of_harness_import_their_own_rank_or_below(arrows: list[tuple[str, str]]) -> None:
    wrong = [
        f"{module} (rank {RANK[source]}) imports {target} (rank {RANK[unit]})"
        for module, target in arrows
        if (source := _unit(module)) in RANK
        and _top(module) == _top(target) == "harness"
        and (unit := _unit(target)) in RANK
        and RANK[unit] > RANK[source]
    ]
    assert not wrong, "\n".join(wrong)


def test_parts_of_harness_form_no_cycle(arrows: list[tuple[str, str]]) -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for module, target in arrows:
        source, unit = _unit(module), _unit(target)
        if _top(module) == _top(target) == "harness" and source in RANK and unit in RANK and source != unit:
            graph[source].add(unit)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"cycle: {' -> '.join(error.args[1])}")


def test_modules_are_named_after_what_they_own(modules: list[Any]) -> None:
    wrong = [module.name for module in modules if BANNED_NAMES & {part.strip("_") for part in module.name.split(".")}]
    assert not wrong, f"name these after what they own: {wrong}"


HEAVY_PACKAGES_LIVE_IN = {
    "torch": ("trainer",),
    "scipy": ("evals.stats",),
    "jinja2": ("evals.report", "trainer.report"),
    "matplotlib": ("evals.report",),
    "docker": ("backends.docker",),
    "aiodocker": ("backends.docker",),
    "modal": ("backends.modal",),
    "daytona": ("backends.daytona",),
    "e2b": ("backends.e2b",),
    "openai": ("harness.llm",),
    "starlette": ("harness.proxy", "evals.view", "trainer.rollout"),
    "uvicorn": ("harness.loopback",),
    "pyarrow": ("harness.export", "trainer.samples"),
    "tokenizers": ("harness.export", "trainer.policy"),
    "transformers": ("harness.export", "trainer.policy"),
    "langsmith": ("harness.tracing",),
    "opentelemetry": ("harness.tracing",),
    "peft": ("trainer.policy",),
    "safetensors": ("trainer",),
    "sqlalchemy": ("harness.store.index",),
    "psycopg": ("harness.store.index",),
    "zstandard": ("harness.packed",),
}


def test_heavy_packages_stay_with_their_owner(modules: list[Any]) -> None:
    wrong = [
        f"{module.name} imports {target}"
        for module in modules
        for target in module.imports()
        if (owners := HEAVY_PACKAGES_LIVE_IN.get(_top(target)))
        and not f"{module.name}.".startswith(tuple(f"{owner}." for owner in owners))
    ]
    assert not wrong, "\n".join(wrong)
