"""The sampled tokens in a chat completion, in the forms that servers give them.

    vLLM        body.prompt_token_ids, choice.token_ids, choice.logprobs.content[].logprob; before `token_ids` there was
                choice.logprobs.content[].token == "token_id:7"
    SGLang      choice.prompt_token_ids, choice.meta_info.output_token_logprobs [[log-probability, id, text], ...],
                body.metadata.weight_version
    llama.cpp   choice.logprobs.content[] with `id` and `logprob`; no prompt ids

The version of the weights: `policy_version` of the choice or the body, `weight_version` of SGLang, or the header
x-policy-version. Where the weights changed along the way: `policy_version_runs`, [[version, tokens], ...].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

TOP_KEYS = (
    *("model", "usage", "prompt_token_ids", "metadata", "timings"),
    *("policy_version", "policy_version_runs"),
)
CHOICE_KEYS = (
    *("finish_reason", "prompt_token_ids", "meta_info", "matched_stop"),
    *("policy_version", "policy_version_runs"),
)
"""What a stream says once, in whichever of its chunks."""

VERSION_HEADER = "x-policy-version"
_UNSET_WEIGHTS = "default"
"""SGLang's version of weights that nobody gave a version."""
_TOKEN_AS_ID = "token_id:"  # noqa: S105


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What a response tells of its sampling; None is what it does not tell."""

    prompt: tuple[int, ...] | None
    completion: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    policy_version: str | None
    version_runs: tuple[tuple[str, int], ...] | None
    engine: str | None


def tokens_of(body: Json, choice: Json, headers: Mapping[str, str]) -> Tokens:
    """The tokens of one choice."""
    meta = _mapping(choice.get("meta_info"))
    content = [_mapping(each) for each in _list(_mapping(choice.get("logprobs")).get("content"))]
    triples = [each for each in map(_list, _list(meta.get("output_token_logprobs"))) if len(each) > 1]
    completion = _ids(choice.get("token_ids"))
    logprobs = [each.get("logprob") for each in content]
    if completion is None and triples:
        completion = _ids([each[1] for each in triples])
        logprobs = [each[0] for each in triples]
    elif completion is None and content:
        completion = _ids([_id_in(each) for each in content])
    runs = _runs(choice.get("policy_version_runs") or body.get("policy_version_runs"))
    return Tokens(
        prompt=_ids(body.get("prompt_token_ids") or choice.get("prompt_token_ids")),
        completion=completion,
        logprobs=_numbers(logprobs),
        policy_version=_version(body, choice, meta, headers) or (runs[0][0] if runs else None),
        version_runs=runs,
        engine=_engine(body, choice),
    )


def _version(body: Json, choice: Json, meta: Json, headers: Mapping[str, str]) -> str | None:
    weights = meta.get("weight_version") or _mapping(body.get("metadata")).get("weight_version")
    candidates = (
        choice.get("policy_version"),
        body.get("policy_version"),
        None if weights == _UNSET_WEIGHTS else weights,
        headers.get(VERSION_HEADER),
    )
    return next((str(each)[:200] for each in candidates if isinstance(each, str | int) and str(each)), None)


def _runs(value: object) -> tuple[tuple[str, int], ...] | None:
    try:
        runs = tuple((str(version)[:200], int(count)) for version, count in _list(value))
    except (TypeError, ValueError):
        return None
    return runs if runs and all(count >= 0 for _, count in runs) else None


def _engine(body: Json, choice: Json) -> str | None:
    if "meta_info" in choice or "matched_stop" in choice:
        return "sglang"
    if "timings" in body:
        return "llama.cpp"
    return "vllm" if "prompt_token_ids" in body else None


def _id_in(entry: Json) -> object:
    token = entry.get("token")
    if isinstance(token, str) and token.startswith(_TOKEN_AS_ID) and token[len(_TOKEN_AS_ID) :].isdecimal():
        return int(token[len(_TOKEN_AS_ID) :])
    return entry.get("id")


def _ids(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list | tuple):
        return None
    return tuple(value) if all(type(each) is int and 0 <= each < 1 << 31 for each in value) else None


def _numbers(values: Sequence[object]) -> tuple[float, ...] | None:
    numbers = [float(each) if type(each) in (int, float) else None for each in values]  # type: ignore[arg-type]
    if not any(each is not None for each in numbers):
        return None
    return tuple(float("nan") if each is None else each for each in numbers)


def _mapping(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
