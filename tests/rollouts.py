"""Jobs made of sampled calls, and random conversations, for tests of what exports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from runs import write_job

from harness.export.read import read_samples
from harness.export.rl import export_rl
from harness.export.schema import RLSample
from harness.export.stats import ExportStats
from harness.failures import Outcome
from harness.store.layout import JobPaths
from harness.store.rollout import RolloutWriter, SampledCall

Ends = float | Outcome | None


def call(prompt: Sequence[int], completion: Sequence[int] | None, **fields: Any) -> SampledCall:
    """A call whose log-probabilities follow from its tokens, unless they are given."""
    logprobs = None if completion is None else [-((token % 100) + 1) / 128 for token in completion]
    values = {"call_id": f"c{len(prompt)}", "logprobs": logprobs, **fields}
    return SampledCall(prompt_ids=prompt, completion_ids=completion, **values)


def job_of(
    folder: Path, attempts: Sequence[Sequence[SampledCall]], *, ends: Sequence[Ends] | None = None, **fields: Any
) -> Path:
    """A job whose one task's attempts made these calls, and ended with these rewards (1 by default)."""
    write_job(folder, {"t": ends or [1.0] * len(attempts)}, **fields)
    for number, calls in enumerate(attempts, 1):
        if calls:
            writer = RolloutWriter(JobPaths(folder).trial(f"t0000__{number}").rollout())
            for each in calls:
                writer.add(each)
            writer.close()
    return folder


def exported(
    folder: Path, attempts: Sequence[Sequence[SampledCall]], *, ends: Sequence[Ends] | None = None, **options: Any
) -> tuple[list[RLSample], ExportStats]:
    """The rows of such a job, written and read back."""
    stats = export_rl([job_of(folder / "job", attempts, ends=ends)], folder / "rows", **options)
    return list(read_samples(folder / "rows")), stats


@dataclass
class Conversation:
    """What an agent, its context policy and its sub-agents did: the calls, in the order in which they were made."""

    calls: list[SampledCall] = field(default_factory=list)

    def sample(self, prompt: list[int], completion: list[int], **fields: Any) -> None:
        """One more call."""
        self.calls.append(call(prompt, completion, **{"call_id": f"n{len(self.calls)}", **fields}))


TOKENS = st.lists(st.integers(0, 5), min_size=1, max_size=6)
"""Few different tokens, so that prefixes meet by chance, too."""
TURNS = st.lists(
    st.tuples(
        st.sampled_from(
            ["tool", "tool", "tool", "error", "compact", "respell", "strip", "resample", "sub", "truncated", "retry"]
        ),
        TOKENS,
        TOKENS,
        st.sampled_from(["fine"] * 6 + ["count", "nan", "inf", "positive", "none", "empty", "no_prompt"]),
    ),
    min_size=1,
    max_size=9,
)


@st.composite
def conversations(draw: st.DrawFn) -> list[SampledCall]:
    """Branching, compaction, re-spelled history, sub-agents, cut answers, and calls whose numbers are wrong."""
    made = Conversation()
    head = draw(TOKENS)
    history = list(head)
    for number, (event, seen, answer, numbers) in enumerate(draw(TURNS)):
        prompt, fields = list(history), _numbers(numbers, answer)
        if event == "sub":
            made.sample(draw(TOKENS), answer, session=f"sub{number}", **fields)
            continue
        if event == "resample":
            made.sample(prompt, [*answer, 7], **{**fields, **_numbers(numbers, [*answer, 7])})
        made.sample(prompt, answer, finish_reason="length" if event == "truncated" else "stop", **fields)
        match event:
            case "compact":
                history = [*head, *history[-2:], *seen]
            case "respell":
                history = [*history, *answer[:-1], 6, *seen]
            case "strip":
                history = [*history, *answer[len(answer) // 2 :], *seen]
            case "retry":
                pass
            case _:
                history = [*history, *answer, *seen]
    return made.calls


def _numbers(kind: str, answer: list[int]) -> dict[str, Any]:
    """The fields of a call whose log-probabilities, or ids, are as wrong as `kind` says."""
    good = [-0.25] * len(answer)
    wrong: dict[str, Any] = {
        "count": {"logprobs": [*good, -1.0]},
        "nan": {"logprobs": [*good[1:], float("nan")]},
        "inf": {"logprobs": [*good[1:], float("-inf")]},
        "positive": {"logprobs": [*good[1:], 0.5]},
        "none": {"logprobs": None},
    }
    return dict(wrong.get(kind, {}))
