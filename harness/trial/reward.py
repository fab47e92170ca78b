"""The grammar of a reward. Absence of a verdict is its own outcome: nothing here turns it into 0.

    reward.txt    one finite number, within the task's range (by default [0, 1])
    reward.json   a flat object of such numbers; the key `reward` is the headline, else the mean of all
    status.json   {"status": "infra", "reason": ...}: the verifier could not grade; whatever reward lies there is void

reward.json takes precedence over reward.txt; if they disagree, that is flagged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import RewardInvalid, RewardMissing, VerifierUnavailable
from harness.strict_json import whole

MAX_REWARD_BYTES = 1 << 20
_MAX_KEYS = 1000
_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """A valid verdict. `parts` holds every key; `headline` says where `value` comes from."""

    value: float
    parts: Mapping[str, float]
    source: str
    headline: str
    conflict: bool = False


def parse_reward(files: Mapping[str, bytes], allowed: tuple[float, float] = (0.0, 1.0)) -> Reward:
    """The reward in the verifier's files, by name.

    Raises VerifierUnavailable, RewardMissing or RewardInvalid; never anything else, whatever the bytes are.
    """
    if "status.json" in files:
        _check_status(files["status.json"])
    text, document = files.get("reward.txt"), files.get("reward.json")
    if document is not None:
        reward = _from_json(document, allowed)
        if text is None:
            return reward
        try:
            conflict = _from_text(text, allowed).value != reward.value
        except RewardInvalid:
            conflict = True
        return Reward(
            value=reward.value, parts=reward.parts, source=reward.source, headline=reward.headline, conflict=conflict
        )
    if text is None:
        raise RewardMissing("test.sh ended without writing /logs/verifier/reward.txt or reward.json")
    return _from_text(text, allowed)


def _check_status(raw: bytes) -> None:
    try:
        status = json.loads(raw)
    except (ValueError, RecursionError):
        raise RewardInvalid("status.json is not JSON") from None
    if not isinstance(status, dict):
        raise RewardInvalid("status.json is not an object")
    if status.get("status") == "infra":
        raise VerifierUnavailable(
            f"the verifier could not grade: {_shown(str(status.get('reason') or 'no reason given'))}"
        )


def _from_text(raw: bytes, allowed: tuple[float, float]) -> Reward:
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise RewardInvalid("reward.txt is not UTF-8 text") from None
    if not text:
        raise RewardInvalid("reward.txt is empty")
    if len(text) > 64 or "_" in text:
        raise RewardInvalid(f"reward.txt is not one number: {_shown(text)}")
    try:
        value = float(text)
    except ValueError:
        raise RewardInvalid(f"reward.txt is not one number: {_shown(text)}") from None
    value = _checked("reward.txt", value, allowed)
    return Reward(value=value, parts={"reward": value}, source="reward.txt", headline="reward")


def _from_json(raw: bytes, allowed: tuple[float, float]) -> Reward:
    if len(raw) > MAX_REWARD_BYTES:
        raise RewardInvalid(f"reward.json is larger than {MAX_REWARD_BYTES} bytes")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise RewardInvalid(f"reward.json is not JSON: {_shown(raw.decode('utf-8', 'replace'))}") from None
    if not isinstance(document, dict) or not document or len(document) > _MAX_KEYS:
        raise RewardInvalid("reward.json is not a flat object of numbers")
    parts: dict[str, float] = {}
    for name, value in document.items():
        key = whole(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RewardInvalid(f"reward.json: {_shown(key)} is not a number")
        try:
            parts[key] = _checked(f"reward.json: {_shown(key)}", float(value), allowed)
        except OverflowError:
            raise RewardInvalid(f"reward.json: {_shown(key)} is too large") from None
    if "reward" in parts:
        return Reward(value=parts["reward"], parts=parts, source="reward.json", headline="reward")
    mean = math.fsum(parts.values()) / len(parts)
    return Reward(value=mean, parts=parts, source="reward.json", headline="mean")


def _checked(where: str, value: float, allowed: tuple[float, float]) -> float:
    if not math.isfinite(value):
        raise RewardInvalid(f"{where} is not finite")
    low, high = allowed
    if not low <= value <= high:
        raise RewardInvalid(f"{where} is {value:g}, outside [{low:g}, {high:g}]")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
