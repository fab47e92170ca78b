"""Answers on tape: what an upstream answered, one JSON line each, to be played again without it.

    {"key": "…", "links": ["…"], "stream": false, "body": {…} | "chunks": [{…}], "headers": {…}, "price": […] | null}

An answer is found by what the request says (see `harness.proxy.conversation`), the names of its tools, and whether it
is streamed; a client's own ids and sampling parameters do not matter. Equal requests are answered in the order of their
recording, and parallel ones may come in any order. Every dialect's translation is pure: what the client reads is byte
for byte what it read when the tape was made. A request's text is not on the tape, an answer's is.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness import strict_json
from harness.errors import UsageError
from harness.llm.price import Price
from harness.llm.sampled import VERSION_HEADER
from harness.proxy.dialects.protocol import mapping, sequence
from harness.proxy.upstream.protocol import Answer, Json, Question, Upstream


class NotOnTape(Exception):
    """A request that the tape has no answer for."""


class RecordingUpstream:
    """An Upstream that writes down what another one answers, once the answer is whole."""

    def __init__(self, upstream: Upstream, file: Path, redact: Callable[[str], str]) -> None:
        """Raises UsageError when the file is there already, or cannot be written."""
        self._upstream = upstream
        self._path = file
        self._redact = redact
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = file.open("x", encoding="utf-8")
        except FileExistsError as error:
            raise UsageError(f"{file} is there already: name a new file, or play it with --replay") from error
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror}") from error

    @property
    def name(self) -> str:
        """The upstream's."""
        return self._upstream.name

    @property
    def sampling(self) -> Mapping[str, Any]:
        """The upstream's."""
        return self._upstream.sampling

    @asynccontextmanager
    async def ask(self, question: Question) -> AsyncIterator[Answer]:
        """Ask the upstream."""
        async with self._upstream.ask(question) as answer:
            if answer.body is not None:
                body = self._clean(answer.body)
                self._write(question, answer, {"body": body})
                yield Answer(body=body, headers=answer.headers, price=answer.price, retries=answer.retries)
                return
            chunks = self._copied(question, answer)
            yield Answer(chunks=chunks, headers=answer.headers, price=answer.price, retries=answer.retries)

    async def close(self) -> None:
        """Close the upstream and the file. One that holds no answer would only stand in the next one's way."""
        empty = self._file.tell() == 0
        self._file.close()
        if empty:
            self._path.unlink(missing_ok=True)
        await self._upstream.close()

    async def _copied(self, question: Question, answer: Answer) -> AsyncIterator[Json]:
        assert answer.chunks is not None
        chunks = []
        async for chunk in answer.chunks:
            cleaned = self._clean(chunk)
            chunks.append(cleaned)
            yield cleaned
        self._write(question, answer, {"chunks": chunks})

    def _clean(self, body: Json) -> dict[str, Any]:
        """What goes on tape is also what the client gets, so that both are the same."""
        return dict(strict_json.clean(dict(body), self._redact)[0])

    def _write(self, question: Question, answer: Answer, content: dict[str, Any]) -> None:
        price = answer.price
        version = answer.headers.get(VERSION_HEADER)
        line = {
            **_identity(question),
            **content,
            "headers": {VERSION_HEADER: version} if version else {},
            "price": [price.input, price.output, price.cached] if price else None,
        }
        self._file.write(strict_json.dumps(line) + "\n")
        self._file.flush()


class ReplayUpstream:
    """An Upstream that answers from a tape, each answer once."""

    name = "replay"

    def __init__(self, file: Path) -> None:
        """Raises UsageError for a file that is missing or malformed, naming the line."""
        self._file = file
        self._answers: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        self._links: dict[str, int] = {}
        self._count = 0
        try:
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, start=1):
                    self._take(number, line)
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"cannot read {file}: it is not text, and no tape") from error

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Nothing is sampled."""
        return {}

    @asynccontextmanager
    async def ask(self, question: Question) -> AsyncIterator[Answer]:
        """The next recorded answer to such a request. Raises NotOnTape."""
        identity = _identity(question)
        found = self._answers.get(identity["key"])
        if not found:
            raise NotOnTape(self._why_not(question, identity, known=found is not None))
        line = found.popleft()
        price = (
            Price(input=line["price"][0], output=line["price"][1], cached=line["price"][2]) if line["price"] else None
        )
        if "body" in line:
            yield Answer(body=line["body"], headers=line["headers"], price=price)
        else:
            yield Answer(chunks=_played(line["chunks"]), headers=line["headers"], price=price)

    async def close(self) -> None:
        """Nothing to release."""

    def _take(self, number: int, line: str) -> None:
        try:
            entry = strict_json.loads(line)
            key, links = entry["key"], entry["links"]
            if not ({"body", "chunks"} & entry.keys() and {"headers", "price"} <= entry.keys()):
                raise KeyError("body")
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self._file}, line {number}: this is no recorded exchange") from error
        self._answers[key].append(entry)
        self._count += 1
        for link in links:
            self._links.setdefault(link, number)

    def _why_not(self, question: Question, identity: Json, *, known: bool) -> str:
        if known:
            return (
                f"{self._file.name}: all recorded answers to this request were given (there are {self._count} in all)"
            )
        messages = question.said.messages
        shared = next((n for n in range(len(messages), 0, -1) if identity["links"][n - 1] in self._links), 0)
        if shared == len(messages):
            return f"{self._file.name}: this conversation was recorded with other tools, or not at this point"
        role = messages[shared].role
        after = f", which differs after line {self._links[identity['links'][shared - 1]]}" if shared else ""
        return f"{self._file.name}: no recorded request has this message {shared + 1} ({role}){after}"


async def _played(chunks: list[Json]) -> AsyncIterator[Json]:
    for chunk in chunks:
        yield chunk


def _identity(question: Question) -> dict[str, Any]:
    body = question.body
    links = [link.hex() for link in question.said.links]
    tools = [str(mapping(mapping(tool).get("function")).get("name")) for tool in sequence(body.get("tools"))]
    said = json.dumps([links[-1], tools, question.stream])
    key = hashlib.blake2b(said.encode(), digest_size=16).hexdigest()
    return {"key": key, "links": links, "stream": question.stream}
