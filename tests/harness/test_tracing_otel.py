"""OpenTelemetry's own SDK, in the child process, against a collector that decodes the protocol's messages."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from traced_jobs import SECRET, at, traced_job
from tracing_servers import OtlpServer, attributes, serving

from harness.store.layout import JobPaths
from harness.tracing.exporter import Exporter, Tally
from harness.tracing.push import push
from harness.tracing.semconv import ATTRIBUTES, EVALUATION_NAME, EVALUATION_SCORE, SCHEMA_URL
from harness.tracing.sink import Target

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def exported(job: Path, server: OtlpServer, **more: str) -> Tally:
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    names = [folder.name for folder in JobPaths(job).trial_folders()]
    return push(Exporter(Target.OTEL, job, server.url, env={**env, **more}), names)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtlpServer]:
    with serving(OtlpServer()) as server:
        server = cast(OtlpServer, server)
        assert exported(traced_job(tmp_path_factory.mktemp("jobs")), server).sent == 4
        yield server


def trace_of_trial(server: OtlpServer, trial: str) -> dict[str, Any]:
    """A trial's spans by name, parents first; of several that share one, the first."""
    root = next(span for span in server.spans if attributes(span).get("harness.trial_name") == trial)
    found: dict[str, Any] = {}
    parents_first = server.spans[::-1]  # they end last
    for span in sorted(parents_first, key=lambda span: int(span.start_time_unix_nano)):
        if span.trace_id == root.trace_id:
            found.setdefault(span.name, span)
    return found


def test_a_trial_is_a_trace_whose_spans_nest_and_are_named_by_the_conventions(collector: OtlpServer) -> None:
    spans = trace_of_trial(collector, "a__1")
    assert list(spans) == [
        "trial acme/a",
        "setup environment",
        "invoke_agent coder",
        "chat glm-5",
        "execute_tool bash",
        "execute_tool task",
        "verification verifier",
    ]
    assert not spans["trial acme/a"].parent_span_id
    assert spans["invoke_agent coder"].parent_span_id == spans["trial acme/a"].span_id
    assert spans["execute_tool bash"].parent_span_id == spans["invoke_agent coder"].span_id
    assert spans["chat glm-5"].start_time_unix_nano == int(at(7).timestamp() * 1e9)
    assert spans["chat glm-5"].end_time_unix_nano == int(at(10).timestamp() * 1e9)


def test_a_model_call_tells_its_operation_model_and_tokens(collector: OtlpServer) -> None:
    found = attributes(trace_of_trial(collector, "a__1")["chat glm-5"])
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "glm-5",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "harness.cost_usd": 0.1,
        "harness.span.kind": "model",
        "harness.step_id": 2,
    }


def test_marks_are_evaluation_events_and_infrastructure_has_no_reward(collector: OtlpServer) -> None:
    def scores(trial: str) -> dict[str, Any]:
        events = trace_of_trial(collector, trial)["trial acme/a"].events
        return {attributes(each)[EVALUATION_NAME]: attributes(each).get(EVALUATION_SCORE) for each in events}

    assert scores("a__1").items() >= {"reward": 1.0, "reward.style": 0.5, "success": 1.0}.items()
    assert scores("a__2") == {"failure_category": None, "infra": 1.0}


def test_an_error_is_a_status_and_a_type(collector: OtlpServer) -> None:
    root = trace_of_trial(collector, "b__1")["trial acme/b"]
    assert root.status.code == 2
    assert attributes(root)["error.type"] == root.status.message == "agent_timeout"


def test_no_content_is_sent_unless_asked_for(collector: OtlpServer) -> None:
    said = b"".join(request.body for request in collector.requests)
    assert not [text for text in (b"Tidy up", b"notes.txt", b"Looking", b"sleep 99", b"it ended") if text in said]


def test_the_schema_is_pinned_and_the_resource_names_the_job(collector: OtlpServer) -> None:
    assert {scope.schema_url for scope in collector.scopes} == {SCHEMA_URL}
    assert attributes(collector.resources[0]).items() >= {"service.name": "harness", "harness.job": "job"}.items()


def test_every_name_in_the_table_is_one_of_the_conventions() -> None:
    names = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for name, value in vars(names).items() if name.startswith("GEN_AI_") and isinstance(value, str)}
    used = {name for table in ATTRIBUTES.values() for name in table if name.startswith("gen_ai.")}
    assert used <= known


@pytest.mark.slow
def test_content_that_is_asked_for_has_the_conventions_form_and_no_secret(tmp_path: Path) -> None:
    with serving(OtlpServer()) as server:
        server = cast(OtlpServer, server)
        exported(traced_job(tmp_path), server, MY_PASSWORD=SECRET, **{CAPTURE: "true"})
        spans = trace_of_trial(server, "a__1")
        asked = json.loads(attributes(spans["chat glm-5"])["gen_ai.input.messages"])
        assert asked == [{"role": "user", "parts": [{"type": "text", "content": "Tidy up."}]}]
        (answer,) = json.loads(attributes(spans["chat glm-5"])["gen_ai.output.messages"])
        assert [part["type"] for part in answer["parts"]] == ["reasoning", "text", "tool_call", "tool_call"]
        assert json.loads(attributes(spans["execute_tool bash"])["gen_ai.tool.call.arguments"]) == {"command": "ls"}
        assert SECRET.encode() not in b"".join(request.body for request in server.requests)


@pytest.mark.slow
def test_the_sdks_own_sampler_is_obeyed(tmp_path: Path) -> None:
    with serving(OtlpServer()) as server:
        tally = exported(traced_job(tmp_path), cast(OtlpServer, server), OTEL_TRACES_SAMPLER="always_off")
        assert (tally.sent, tally.left_out) == (0, 4)
        assert not server.requests
