"""ATIF v1.0 to v1.8 as frozen values. A document that breaks the format cannot be constructed.

The models are the union of all versions: what a later version added is accepted in an earlier one, and the one thing
that a later version tightened (how a subagent is referred to) is checked by the document's version.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
WRITTEN_VERSION = "ATIF-v1.7"
"""What we write: it has everything that we use, and more readers know it than know v1.8."""

_AUDIO_ALIASES = {
    "audio/mp3": "audio/mpeg",
    "audio/mpga": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-aac": "audio/aac",
    "audio/x-flac": "audio/flac",
    "audio/x-aiff": "audio/aiff",
}
_MEDIA = {
    "image": {"image/jpeg", "image/png", "image/gif", "image/webp"},
    "audio": {f"audio/{kind}" for kind in ("wav", "mpeg", "mp4", "aac", "ogg", "flac", "webm", "aiff")},
}


class _Value(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MediaSource(_Value):
    """Where an image or a sound lies: a path or a URL. `duration_sec` is for sounds only."""

    media_type: str
    path: str
    duration_sec: float | None = Field(default=None, ge=0)

    @field_validator("media_type")
    @classmethod
    def _canonical(cls, value: str) -> str:
        name = value.strip().lower()
        return _AUDIO_ALIASES.get(name, name)


class ContentPart(_Value):
    """One part of a message of several kinds: text, or a reference to an image or a sound."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: MediaSource | None = None

    @model_validator(mode="after")
    def _kind_and_payload_agree(self) -> ContentPart:
        if self.type == "text":
            if self.text is None or self.source is not None:
                raise ValueError("a text part has `text` and no `source`")
        elif self.source is None or self.text is not None:
            raise ValueError(f"a part of type {self.type!r} has `source` and no `text`")
        elif self.source.media_type not in _MEDIA[self.type]:
            raise ValueError(f"media_type {self.source.media_type!r} is not an {self.type}")
        elif self.type == "image" and self.source.duration_sec is not None:
            raise ValueError("an image has no duration_sec")
        return self


Content = str | list[ContentPart]


class AgentInfo(_Value):
    """Who acted."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class ToolCall(_Value):
    """One call; its id is unique within its step."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class SubagentRef(_Value):
    """Points at a subagent's trajectory: embedded (by `trajectory_id`) or in a file (by `trajectory_path`)."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: dict[str, Any] | None = None


class ObservationResult(_Value):
    """What one call returned; without `source_call_id` it belongs to no call."""

    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[SubagentRef] | None = None
    extra: dict[str, Any] | None = None


class Observation(_Value):
    """What came back from the environment, in any order."""

    results: list[ObservationResult]


class Metrics(_Value):
    """One model call in numbers. `prompt_tokens` includes `cached_tokens`. None is unknown."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


class Step(_Value):
    """One message with all that belongs to it."""

    step_id: int = Field(ge=1)
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: Content
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = Field(default=None, ge=0)
    extra: dict[str, Any] | None = None

    @field_validator("timestamp")
    @classmethod
    def _iso_8601(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value)
        return value

    @model_validator(mode="after")
    def _fields_fit_the_source(self) -> Step:
        forbidden: tuple[str, ...] = ()
        if self.source != "agent":
            forbidden = _AGENT_ONLY
        elif self.llm_call_count == 0:
            forbidden = ("metrics", "reasoning_content")
        for name in forbidden:
            if getattr(self, name) is not None:
                why = "without a model call" if self.source == "agent" else f"of source {self.source!r}"
                raise ValueError(f"step {self.step_id}: {name!r} is not allowed on a step {why}")
        return self

    @model_validator(mode="after")
    def _results_pair_with_calls(self) -> Step:
        counts = Counter(call.tool_call_id for call in self.tool_calls or ())
        for call_id, count in counts.items():
            if count > 1:
                raise ValueError(f"step {self.step_id}: tool_call_id {call_id!r} is used by {count} calls")
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in counts:
                raise ValueError(
                    f"step {self.step_id}: source_call_id {result.source_call_id!r} is not a call of this step"
                )
        return self


class FinalMetrics(_Value):
    """Totals over the steps that are not copied context."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = Field(default=None, ge=0)
    extra: dict[str, Any] | None = None


class Trajectory(_Value):
    """One run of one agent."""

    schema_version: str
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: AgentInfo
    steps: list[Step] = Field(min_length=1)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: list[Trajectory] | None = None

    @field_validator("schema_version")
    @classmethod
    def _known_version(cls, value: str) -> str:
        if value not in VERSIONS:
            raise ValueError(f"unknown version {value!r} (known: {VERSIONS[0]} to {VERSIONS[-1]})")
        return value

    @model_validator(mode="after")
    def _ids_without_gaps(self) -> Trajectory:
        for expected, step in enumerate(self.steps, start=1):
            if step.step_id != expected:
                raise ValueError(f"steps are numbered from 1 without gaps: expected {expected}, found {step.step_id}")
        return self

    @model_validator(mode="after")
    def _subagents_are_named(self) -> Trajectory:
        ids = Counter(sub.trajectory_id for sub in self.subagent_trajectories or ())
        for trajectory_id, count in ids.items():
            if trajectory_id is None or count > 1:
                raise ValueError(f"embedded subagents need trajectory_ids of their own, found {trajectory_id!r}")
        return self

    @model_validator(mode="after")
    def _references_resolve(self) -> Trajectory:
        by_session = VERSIONS.index(self.schema_version) < VERSIONS.index("ATIF-v1.7")
        for step in self.steps:
            for result in step.observation.results if step.observation else ():
                for ref in result.subagent_trajectory_ref or ():
                    key = ref.trajectory_id or ref.trajectory_path or (ref.session_id if by_session else None)
                    if key is None:
                        raise ValueError(
                            f"step {step.step_id}: a subagent_trajectory_ref needs trajectory_id or trajectory_path"
                        )
        return self
