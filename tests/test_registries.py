"""What lets CI leave a test out: a registry that does not answer, and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from registries import registries, silent


class Registry(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:4]))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_registry_is_silent_if_nobody_answers_or_its_server_fails(address: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        asked = [f"{address}/{status}" for status in (200, 403, 404, 429, 500, 503)]
        assert silent([*asked, nobody]) == [f"{address}/429", f"{address}/500", f"{address}/503", nobody]


def test_a_mirror_stands_for_its_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror/simple/")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://mirror/npm/")
    assert registries()[:2] == ["https://mirror/simple/pip/", "https://mirror/npm/-/ping"]
