"""LangSmith, by its own SDK: one trace per trial in the job's experiment, and one feedback per mark.

Every id follows from the record, so sending a trial again changes nothing. A trace and its feedback go out together and
have arrived, or not, when `send` returns.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness.tracing.experiment import Experiment, close_experiment, open_experiment
from harness.tracing.job import JobFacts
from harness.tracing.settings import LangSmithSettings
from harness.tracing.sink import Unsent
from harness.tracing.spans import Kind, Mark, Span, Tokens, Trace

if TYPE_CHECKING:
    from langsmith import Client

_RUN_TYPES = {Kind.MODEL: "llm", Kind.TOOL: "tool"}
_TIMEOUT_MS = (3_000, 10_000)
_FLUSH_SEC = 20.0
_WHOLE = 1 << 53


class LangSmithSink:
    """Sends to one experiment, which is found or made with the first trace."""

    def __init__(self, job: JobFacts, project: str | None, env: Mapping[str, str]) -> None:
        """Loads the SDK. Raises ImportError, and UsageError for settings that cannot be."""
        self.settings = LangSmithSettings.of(env, project)
        self._job = job
        self._problems: list[Exception] = []
        self._client = make_client(self.settings, self._problems)
        self._experiment: Experiment | None = None

    def send(self, trace: Trace) -> bool:
        """Send one trace with its feedback; False if sampling leaves it out. Raises Unsent."""
        if not _sampled(trace.id_of(""), self.settings.sampling_rate):
            return False
        experiment = self._opened()
        try:
            self._problems.clear()
            self._enqueue(trace, experiment)
            waited = time.monotonic()
            self._client.flush(timeout=_FLUSH_SEC)
        except Exception as error:
            raise Unsent(reason(error)) from error
        if time.monotonic() - waited >= _FLUSH_SEC:
            raise Unsent(f"no answer within {_FLUSH_SEC:g} s")
        if self._problems:
            raise Unsent(reason(self._problems[0]))
        return True

    def _opened(self) -> Experiment:
        if self._experiment is None:
            try:
                self._experiment = open_experiment(
                    self._client, self._job, self.settings.project, self.settings.content
                )
            except Exception as error:
                # A client asks a server once what it can do, and takes no answer for "little": the next one asks anew.
                self._client = make_client(self.settings, self._problems)
                raise Unsent(reason(error)) from error
        return self._experiment

    def finish(self) -> None:
        """End the experiment. Raises Unsent."""
        if self._experiment is not None:
            try:
                close_experiment(self._client, self._experiment, datetime.now(UTC))
            except Exception as error:
                raise Unsent(reason(error)) from error

    def _enqueue(self, trace: Trace, experiment: Experiment) -> None:
        example = experiment.examples.get(trace.task_name)
        for run in runs_of(trace, self.settings, example):
            self._client.create_run(**run, project_name=experiment.name)
        for mark in trace.marks:
            self._client.create_feedback(**_feedback(trace, mark), session_id=experiment.id)


def make_client(settings: LangSmithSettings, problems: list[Exception]) -> Client:
    """The SDK's client, which appends what goes wrong in its background to `problems`. Raises ImportError."""
    from langsmith import Client
    from urllib3.util import Retry

    return Client(
        api_url=settings.endpoint,
        api_key=settings.api_key,
        workspace_id=settings.workspace,
        timeout_ms=_TIMEOUT_MS,
        retry_config=Retry(total=0),
        hide_inputs=False,  # done already, for every exporter alike
        hide_outputs=False,
        omit_traced_runtime_info=True,
        tracing_mode="langsmith",
        tracing_sampling_rate=1.0,
        tracing_error_callback=problems.append,
        disable_prompt_cache=True,
    )


def runs_of(trace: Trace, settings: LangSmithSettings, example: uuid.UUID | None) -> list[dict[str, Any]]:
    """The arguments of `create_run` for each span, parents first."""
    orders: dict[str, str] = {}
    runs = []
    for bare in trace.spans:
        span = settings.content.of(bare)
        id_ = trace.id_of(span.key)
        own = f"{span.start.astimezone(UTC):%Y%m%dT%H%M%S%f}Z{id_}"
        orders[span.key] = own if span.parent is None else f"{orders[span.parent]}.{own}"
        runs.append(
            {
                "id": id_,
                "trace_id": trace.id_of(""),
                "parent_run_id": None if span.parent is None else trace.id_of(span.parent),
                "dotted_order": orders[span.key],
                "name": span.name,
                "run_type": _RUN_TYPES.get(span.kind, "chain"),
                "start_time": span.start,
                "end_time": span.end,
                "inputs": span.inputs,
                "outputs": _outputs(span),
                "error": f"{span.error}: {span.error_text}".removesuffix(": ") if span.error else None,
                "extra": {"metadata": _metadata(span)},
                "tags": [span.kind.value],
                **({"reference_example_id": example} if span.parent is None and example else {}),
            }
        )
    return runs


def _metadata(span: Span) -> dict[str, Any]:
    if span.kind is Kind.MODEL:
        sampling = span.facts.get("sampling") or {}
        named = {"ls_model_name": span.model, "ls_model_type": "chat", "ls_temperature": sampling.get("temperature")}
        return {**span.facts, **{name: value for name, value in named.items() if value is not None}}
    return {**span.facts, **({"tokens": tokens} if (tokens := _usage(span.tokens)) else {})}


def _outputs(span: Span) -> dict[str, Any]:
    usage = _usage(span.tokens) if span.kind is Kind.MODEL else {}
    return {**span.outputs, **({"usage_metadata": usage} if usage else {})}


def _usage(tokens: Tokens | None) -> dict[str, Any]:
    """Token counts as LangSmith sums and prices them. What is unknown is not there."""
    if tokens is None:
        return {}
    both = None if tokens.input is None or tokens.output is None else tokens.input + tokens.output
    named = {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "total_tokens": both,
        "total_cost": tokens.cost_usd,
        "input_token_details": None if tokens.cached is None else {"cache_read": tokens.cached},
    }
    return {name: value for name, value in named.items() if value is not None}


def _feedback(trace: Trace, mark: Mark) -> dict[str, Any]:
    root = trace.id_of("")
    return {
        "run_id": root,
        "trace_id": root,
        "key": mark.key,
        "score": mark.score,
        "value": mark.value,
        "feedback_id": trace.id_of(f"mark:{mark.key}"),
        "source_info": {"harness": "record"},
        "stop_after_attempt": 1,
    }


def _sampled(id_: uuid.UUID, rate: float) -> bool:
    """Whether a trial is sent: decided by its id, and so the same each time."""
    return (id_.int >> 3) % _WHOLE < rate * _WHOLE


def reason(error: Exception) -> str:
    """What went wrong, in a few words: the SDK's texts run over pages, and repeat what was sent."""
    text = " ".join(str(error).split())
    if status := re.search(r"\b(\d{3}) (?:Client|Server) Error: ([\w ]{1,40}?) for url", text):
        return f"{status[1]} {status[2]}"
    if isinstance(error, ConnectionError | TimeoutError) or "Connection" in type(error).__name__:
        return "no connection"
    return f"{type(error).__name__}: {text[:160]}"
