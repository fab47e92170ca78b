"""Rows of an export, as small as a test needs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

from harness.export.folder import write_manifest
from harness.export.schema import RLSample, Span
from harness.export.shards import JsonShards, ParquetShards


def row(
    reward: float | None = 1.0,
    *,
    task: str = "t",
    attempt: int = 1,
    group_size: int = 4,
    prompt: Sequence[int] = (5, 6, 7),
    turns: Sequence[Sequence[int]] = ((8, 9),),
    logprob: float = -0.5,
    outcome: str = "scored",
    failure: str | None = None,
    versions: tuple[str, ...] = ("0",),
    branch: int = 0,
    n_branches: int = 1,
    **more: Any,
) -> RLSample:
    """One row: the prompt, and turns with a one-token observation (4) between them."""
    ids, mask, logprobs, policy, chunks = array("i", prompt), array("b"), array("f"), array("h"), array("i")
    spans = [Span(start=0, end=len(prompt), kind="context")]
    for _ in prompt:
        mask.append(0), logprobs.append(nan), policy.append(-1), chunks.append(-1)
    trainable = outcome == "scored" and reward is not None
    for number, turn in enumerate(turns):
        if number:
            spans.append(Span(start=len(ids), end=len(ids) + 1, kind="context"))
            ids.append(4), mask.append(0), logprobs.append(nan), policy.append(-1), chunks.append(-1)
        kind = "sampled" if trainable else "masked"
        spans.append(Span(start=len(ids), end=len(ids) + len(turn), kind=kind, chunk=number, call_id=f"c{number}"))
        for token in turn:
            ids.append(token), mask.append(int(trainable)), logprobs.append(logprob if trainable else nan)
            policy.append(0 if versions else -1), chunks.append(number)
    rollout = f"job/{task}__{attempt}"
    sample = RLSample(
        sample_id=f"{rollout}#{branch}",
        group_id=task,
        group_size=group_size,
        group_missing=0,
        rollout_id=rollout,
        branch=branch,
        n_branches=n_branches,
        rollout_weight=1 / n_branches,
        token_ids=ids,
        loss_mask=mask,
        logprobs=logprobs,
        policy_index=policy,
        policy_versions=versions,
        chunk_ids=chunks,
        spans=tuple(spans),
        temperature=1.0,
        logprobs_mode="raw",
        finish_reason="stop",
        reward=None if reward is None else float(reward),
        outcome=outcome,
        failure_category=failure,
        trainable=trainable,
        untrainable_reason=None if trainable else failure or outcome,
        job="job",
        trial=f"{task}__{attempt}",
        task=task,
        task_digest="sha256:0",
        attempt=attempt,
        agent="a",
        agent_version="1",
        harness_version="0",
    )
    return replace(sample, **more)


def group(rewards: Sequence[float | None], *, task: str = "t", **more: Any) -> list[RLSample]:
    """A group with these rewards; None is an attempt that infrastructure took."""
    return [
        row(reward, task=task, attempt=number, group_size=len(rewards), **more)
        if reward is not None
        else row(None, task=task, attempt=number, group_size=len(rewards), outcome="infra_error", failure="infra_oom")
        for number, reward in enumerate(rewards, 1)
    ]


def export(folder: Path, rows: Sequence[RLSample], kind: str = "parquet", **options: Any) -> Path:
    """These rows as an export on disk."""
    folder.mkdir()
    sink = ParquetShards(folder) if kind == "parquet" else JsonShards(folder)
    for each in rows:
        sink.add(each)
    files = [{"name": name} for name in sink.close()]
    write_manifest(folder, {"kind": "rl", "files": files, "options": options})
    return folder
