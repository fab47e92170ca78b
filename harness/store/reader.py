"""Reading records back: ours, and those that Harbor wrote, which lack what ours add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from harness.errors import first_line
from harness.failures import Outcome
from harness.records import TrialResult
from harness.store.files import read_json
from harness.store.layout import JobPaths, slug

_LARGE = 16 << 20

_BY_EXCEPTION = {
    "CancelledError": Outcome.CANCELLED,
    "AgentTimeoutError": Outcome.AGENT_FAILED,
    "NonZeroAgentExitCodeError": Outcome.AGENT_FAILED,
    "ContextWindowExceededError": Outcome.AGENT_FAILED,
    "RewardFileNotFoundError": Outcome.TASK_ERROR,
    "RewardFileEmptyError": Outcome.TASK_ERROR,
    "VerifierOutputParseError": Outcome.TASK_ERROR,
    "ValidationError": Outcome.TASK_ERROR,
}
"""Harbor names what ended a trial by its exception; what is not here is infrastructure."""


def load_result(path: Path) -> TrialResult:
    """The record in a `result.json`. Raises OSError, and ValueError for what is not a record."""
    result = _parse_whole(path) or _parse_strictly(path)
    if result.outcome is None:
        _infer(result)
    return result


def _parse_whole(path: Path) -> TrialResult | None:
    """Text to record in one step, which is twice as fast; None for what needs the strict reader's judgement."""
    if path.stat().st_size > _LARGE:
        return None
    raw = path.read_bytes()
    if b"NaN" in raw or b"Infinity" in raw:
        return None
    try:
        return TrialResult.model_validate_json(raw)
    except ValidationError:
        return None


def _parse_strictly(path: Path) -> TrialResult:
    document = read_json(path)
    try:
        return TrialResult.model_validate(document)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise ValueError(f"not a trial's record: {where}: {error.errors()[0]['msg']}") from None


def _infer(result: TrialResult) -> None:
    """Give a record of Harbor's its outcome. A reward outside [0, 1] is none by our grammar."""
    rewards = result.verifier_result.rewards if result.verifier_result else None
    if rewards and result.reward_valid:
        value = rewards.get("reward", sum(rewards.values()) / len(rewards))
        if 0 <= value <= 1:
            result.outcome, result.reward = Outcome.SCORED, value
        else:
            result.outcome = Outcome.TASK_ERROR
        return
    name = result.exception_info.exception_type if result.exception_info else ""
    result.outcome = _BY_EXCEPTION.get(name, Outcome.INFRA_ERROR)


def group_of(result: TrialResult) -> str:
    """What attempts are compared in: the task and its content. Records of Harbor get the name that ours have."""
    return result.group_id or f"{slug(result.task_name)}@{result.task_checksum[:12]}"


def read_results(paths: JobPaths) -> Iterator[tuple[str, TrialResult | None, str | None]]:
    """Every execution's folder name with its record, or with None and the reason why none can be read.

    Attempts that were not numbered are numbered per task, in the order of their folders.
    """
    unnumbered: Counter[str] = Counter()
    for folder in paths.trial_folders():
        try:
            result = load_result(folder / "result.json")
        except FileNotFoundError:
            yield folder.name, None, "no result.json: the execution was interrupted"
        except (OSError, ValueError) as error:
            yield folder.name, None, f"result.json: {first_line(error)}"
        else:
            if "attempt" not in result.model_fields_set:
                unnumbered[result.task_name] += 1
                result.attempt = unnumbered[result.task_name]
            yield folder.name, result, None
