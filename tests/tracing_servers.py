"""Loopback servers that speak LangSmith's and OTLP's side of the wire, remember what came, and can be broken."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

FAULTS = ("401", "429", "500", "closed", "silence", "drip")
"""What can be wrong with a server: a status, nobody there, no answer at all, an answer a byte a second."""

_NOW = "2026-01-01T00:00:00+00:00"
_TENANT = str(uuid.UUID(int=1))


@dataclass
class Request:
    """One request, its body decoded."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def parts(self) -> dict[str, Any]:
        """A multipart body: each part, which is JSON, by its name."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        message = BytesParser().parsebytes(head + self.body)
        found: dict[str, Any] = {}
        for part in message.get_payload():  # type: ignore[union-attr]
            name = part.get_param("name", header="content-disposition")  # type: ignore[union-attr]
            found[str(name)] = json.loads(part.get_payload(decode=True))  # type: ignore[union-attr,arg-type]
        return found


@dataclass
class Loopback:
    """A server. `fault` may be set and taken back while it runs."""

    fault: str | None = None
    requests: list[Request] = field(default_factory=list)
    url: str = ""
    stopping: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: Request) -> tuple[int, bytes]:
        """The status and body for a request."""
        return 200, b""


@dataclass
class LangSmithServer(Loopback):
    """As much of LangSmith as a job's traces touch. Runs and feedback are kept by id, as it keeps them."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    feedback: dict[str, dict[str, Any]] = field(default_factory=dict)
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)
    posts: list[str] = field(default_factory=list)
    filters: list[str | None] = field(default_factory=list)
    selected: set[str] | None = None
    """The names of the trials that any filter selects; None selects all."""

    def answer(self, request: Request) -> tuple[int, bytes]:
        status, value = self._answer(request)
        return status, json.dumps(value).encode()

    def _answer(self, request: Request) -> tuple[int, Any]:
        method, path = request.method, request.path
        if path == "/info":
            limits = {
                "use_multipart_endpoint": True,
                "size_limit": 100,
                "size_limit_bytes": 20_971_520,
                "scale_up_nthreads_limit": 16,
                "scale_up_qsize_trigger": 1000,
                "scale_down_nempty_trigger": 4,
            }
            flags = {"zstd_compression_enabled": True, "dataset_examples_multipart_enabled": True}
            return 200, {"version": "0.16.5", "batch_ingest_config": limits, "instance_flags": flags}
        if path == "/runs/multipart":
            self._ingest(request.parts)
            return 202, {}
        if path == "/runs/query":
            return 200, self._query(request.json)
        if path == "/datasets":
            return self._named(self.datasets, request, {"created_at": _NOW, "modified_at": _NOW, "data_type": "kv"})
        if path == "/sessions":
            return self._named(self.sessions, request, {"start_time": _NOW})
        if method == "PATCH" and path.startswith("/sessions/"):
            session = next(each for each in self.sessions.values() if each["id"] == path.rpartition("/")[2])
            session |= {key: value for key, value in request.json.items() if value is not None}
            return 200, session
        if path == "/examples":
            wanted = request.query.get("id", list(self.examples))
            return 200, [self.examples[id_] for id_ in wanted if id_ in self.examples]
        if path.startswith("/v1/platform/datasets/") and path.endswith("/examples"):
            return 201, self._add_examples(path.split("/")[4], request.parts)
        return 404, {"detail": "not found"}

    def _named(self, table: dict[str, dict[str, Any]], request: Request, fields: dict[str, Any]) -> tuple[int, Any]:
        if request.method == "GET":
            names = request.query.get("name", list(table))
            return 200, [table[name] for name in names if name in table]
        body = request.json
        if body["name"] in table and "upsert" not in request.query:
            return 409, {"detail": "exists"}
        made = {"id": str(uuid.uuid4()), "tenant_id": _TENANT, **fields, **{k: v for k, v in body.items() if v}}
        return 200, table.setdefault(body["name"], made)

    def _ingest(self, parts: dict[str, Any]) -> None:
        for name, value in parts.items():
            kind, id_, *side = name.split(".")
            if kind == "feedback":
                self.feedback[id_] = value
                continue
            if not side:
                self.posts.append(id_)
            run = self.runs.setdefault(id_, {})
            run |= {side[0]: value} if side else value

    def _query(self, body: dict[str, Any]) -> dict[str, Any]:
        self.filters.append(body.get("filter"))
        name = next(name for name, each in self.sessions.items() if each["id"] in body["session"])
        roots = [
            run
            for run in self.runs.values()
            if run.get("session_name") == name
            and not run.get("parent_run_id")
            and (self.selected is None or run["extra"]["metadata"]["trial_name"] in self.selected)
        ]
        start = int(body.get("cursor") or 0)
        following = start + 2  # pages of two, so that a test sees more than one
        return {
            "runs": [{"id": run["id"], "extra": run["extra"]} for run in roots[start:following]],
            "cursors": {"next": str(following) if following < len(roots) else None},
        }

    def _add_examples(self, dataset: str, parts: dict[str, Any]) -> dict[str, Any]:
        for name, value in parts.items():
            id_, _, side = name.partition(".")
            example = self.examples.setdefault(
                id_, {"id": id_, "dataset_id": dataset, "created_at": _NOW, "inputs": {}, "outputs": {}}
            )
            example |= {side: value} if side else {"metadata": value.get("metadata")}
        return {"count": len(parts), "example_ids": [name for name in parts if "." not in name]}

    def children(self, run_id: str) -> list[dict[str, Any]]:
        """The runs below a run, in order of their time."""
        found = [run for run in self.runs.values() if run.get("parent_run_id") == run_id]
        return sorted(found, key=lambda run: str(run["dotted_order"]))

    def root(self, trial: str) -> dict[str, Any]:
        """The run of a whole trial."""
        return next(
            run
            for run in self.runs.values()
            if not run.get("parent_run_id") and run["extra"]["metadata"]["trial_name"] == trial
        )

    def marks(self, trial: str) -> dict[str, Any]:
        """A trial's feedback by key: its score, or its value."""
        root = self.root(trial)["id"]
        return {
            each["key"]: each["score"] if each.get("score") is not None else each.get("value")
            for each in self.feedback.values()
            if each["run_id"] == root
        }


@dataclass
class OtlpServer(Loopback):
    """A collector. `spans` are those that came, as the protocol's own messages."""

    spans: list[Any] = field(default_factory=list)
    resources: list[Any] = field(default_factory=list)
    scopes: list[Any] = field(default_factory=list)

    def answer(self, request: Request) -> tuple[int, bytes]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        if request.path != "/v1/traces":
            return 404, b""
        message = ExportTraceServiceRequest.FromString(request.body)
        for group in message.resource_spans:
            self.resources.append(group.resource)
            for scope in group.scope_spans:
                self.scopes.append(scope)
                self.spans += scope.spans
        return 200, b""


def attributes(span: Any) -> dict[str, Any]:
    """A span's or an event's attributes as plain values."""
    return {each.key: _plain(each.value) for each in span.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_plain(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@contextmanager
def serving(server: Loopback) -> Iterator[Loopback]:
    """The server, listening; with the fault "closed" nobody does."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            self.connection.settimeout(20)
            fault = server.fault
            if fault == "silence":
                server.requests.append(self._request(b""))
                server.stopping.wait(60)
                self.close_connection = True
                return
            request = self._request(self._body())
            server.requests.append(request)
            if fault == "drip":
                self._drip()
                return
            status, body = (int(fault), b'{"detail": "no"}') if fault else server.answer(request)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _drip(self) -> None:
            self.close_connection = True
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 600\r\n\r\n")
            while not server.stopping.wait(0.5):
                self.wfile.write(b" ")
                self.wfile.flush()

        def _request(self, body: bytes) -> Request:
            url = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            return Request(self.command, url.path, parse_qs(url.query), headers, body)

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding") == "chunked":
                raw = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    raw += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("content-encoding") == "zstd":
                import zstandard

                return zstandard.ZstdDecompressor().decompressobj().decompress(raw)
            return raw

        do_GET = do_POST = do_PATCH = do_PUT = _serve

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # the client was killed in the middle
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    if server.fault == "closed":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            server.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        yield server
        return
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def wait_for(condition: Any, seconds: float = 10.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


DOTTED = re.compile(r"\d{8}T\d{12}Z[0-9a-f-]{36}(\.\d{8}T\d{12}Z[0-9a-f-]{36})*")
