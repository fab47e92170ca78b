"""One folder in, one task out: loaded, or broken with the reason. Nothing that a folder contains raises."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path

from harness.errors import TaskError, TaskInvalid, TaskUnsupported
from harness.task.config import TaskConfig, parse_config, parse_toml
from harness.task.digest import digest_of
from harness.task.environment import environment_findings
from harness.task.interaction_table import interaction_findings, parse_interaction
from harness.task.keys import FILE, unknown_keys
from harness.task.model import BrokenTask, Finding, Task
from harness.task.steps import build_steps
from harness.task.tree import Entry, list_tree, read_text, show_path

SCRIPTS = ("test.sh", "solve.sh", "setup.sh")


def load_task(path: Path, source: str | None = None) -> Task | BrokenTask:
    """The task in the folder `path`; `source` is the dataset it belongs to."""
    name = show_path(path.name) or "task"
    try:
        root = Path(os.path.realpath(path))
        name = show_path(root.name) or "task"
        return _load(root, name, source)
    except TaskError as error:
        return _broken(name, path, source, str(error), unsupported=isinstance(error, TaskUnsupported))
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        return _broken(name, path, source, f"cannot be read: {error.strerror or error}{where}")
    except RecursionError:
        return _broken(name, path, source, "is nested too deeply")
    except (ValueError, OverflowError) as error:
        return _broken(name, path, source, f"cannot be understood: {error}")


def _broken(name: str, path: Path, source: str | None, reason: str, *, unsupported: bool = False) -> BrokenTask:
    line = show_path(" ".join(reason.split()))[:400]
    return BrokenTask(name=name, path=path, source=source, reason=line, unsupported=unsupported)


def _load(root: Path, name: str, source: str | None) -> Task:
    if not root.is_dir():
        raise TaskInvalid("there is no such folder" if not root.exists() else "is not a folder")
    entries = list_tree(root)
    text = read_text(root, FILE)
    tables = parse_toml(text)
    config = parse_config(tables)
    environment, steps = build_steps(config, root)
    metadata = _plain(config.metadata)
    assert isinstance(metadata, dict)
    return Task(
        name=config.task.name if config.task else name,
        path=root,
        digest=digest_of(root, entries),
        source=source,
        environment=environment,
        steps=steps,
        categories=_words(metadata, "category", "categories"),
        tags=_words(metadata, "tags") or tuple(config.task.keywords if config.task else ()),
        difficulty=next(iter(_words(metadata, "difficulty")), None),
        metadata=metadata,
        reward_range=_reward_range(config),
        reward_strategy=config.multi_step_reward_strategy or "mean",
        interaction=parse_interaction(config),
        findings=(*unknown_keys(tables, text), *_file_findings(root, entries), *_setting_findings(config)),
    )


def _words(metadata: Mapping[str, object], *keys: str) -> tuple[str, ...]:
    """Metadata is free: what is not a string is nobody's category."""
    values = (metadata.get(key) for key in keys)
    words = [word for value in values for word in (value if isinstance(value, list) else [value])]
    return tuple(dict.fromkeys(word for word in words if isinstance(word, str) and word.strip()))


def _reward_range(config: TaskConfig) -> tuple[float, float]:
    declared = config.verifier.reward_range or config.metadata.get("reward_range")
    if declared is None:
        return (0.0, 1.0)
    numbers = [value for value in declared if _is_number(value)] if isinstance(declared, list) else []
    if len(numbers) != 2 or not isinstance(declared, list) or len(declared) != 2:
        raise TaskInvalid("reward_range must be two finite numbers: [lowest, highest]")
    low, high = float(numbers[0]), float(numbers[1])
    if low > 0.0 or high < 1.0:
        raise TaskInvalid(f"reward_range [{low:g}, {high:g}] must contain 0 and 1")
    return (low, high)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _plain(value: object) -> object:
    """`value` in types that strict JSON has: TOML also knows dates, NaN and infinities."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _file_findings(root: Path, entries: list[Entry]) -> list[Finding]:
    found: list[Finding] = []
    for entry in entries:
        base = entry.name.rpartition("/")[2]
        if base in SCRIPTS and entry.target is None and b"\r\n" in _head(root / entry.name):
            message = "has Windows line endings (CRLF), which keep a shell script from starting: convert it to LF"
            found.append(Finding(path=show_path(entry.name), key="", message=message))
        elif base == ".harborignore":
            found.append(Finding(path=show_path(entry.name), key="", message="is not applied: every file is uploaded"))
    if (root / "solution").is_dir() and not (root / "solution" / "solve.sh").is_file():
        found.append(Finding(path="solution", key="", message="has no solve.sh, so the oracle cannot solve this task"))
    return found


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1 << 16)


def _setting_findings(config: TaskConfig) -> list[Finding]:
    found = environment_findings(config.environment, "environment")
    if config.verifier.environment is not None:
        found += environment_findings(config.verifier.environment, "verifier.environment")
    if config.multi_step_reward_strategy is not None and not config.steps:
        message = "means nothing in a task without [[steps]]"
        found.append(Finding(path=FILE, key="multi_step_reward_strategy", message=message))
    return [*found, *interaction_findings(config)]
