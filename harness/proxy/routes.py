"""What a request asks for by its method, its path and its headers, and in which dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from harness.proxy.dialects.chat import Chat
from harness.proxy.dialects.gemini import Gemini
from harness.proxy.dialects.messages import Messages
from harness.proxy.dialects.protocol import Dialect, Json
from harness.proxy.dialects.responses import Responses

_CHAT, _RESPONSES, _MESSAGES, _GEMINI = Chat(), Responses(), Messages(), Gemini()
_ASKED: Mapping[str, Dialect] = {"chat/completions": _CHAT, "responses": _RESPONSES, "messages": _MESSAGES}
_GOOGLES = ("v1beta", "v1alpha", "v1beta1")
"""Versions that only Google's API has."""


class Wanted(Enum):
    """What a request asks for."""

    ANSWER = "answer"
    COUNT = "count"
    """How many tokens it has."""
    MODELS = "models"
    WEBSOCKET = "websocket"
    NOTHING = "nothing"
    """That is served here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One request's.

    Attributes:
        told: what this API says in the path, and the others in the body.
        tell: the body of a count's answer, by the number of tokens, or of the models' by the model's name.
        hint: what to do where nothing is served.
    """

    wanted: Wanted
    dialect: Dialect
    told: Json = field(default_factory=dict)
    tell: Callable[[Any], dict[str, Any]] = dict
    hint: str = ""


def route_of(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Route:
    """The route of a path, that is, of what follows a lease's address."""
    version, _, rest = path.partition("/")
    if version in _GOOGLES or "x-goog-api-key" in headers:
        return _googles(method, rest if version in (*_GOOGLES, "v1") else path, query)
    path = path.removeprefix("v1/")
    dialect = _ASKED.get(path) or (_MESSAGES if path == "messages/count_tokens" or "x-api-key" in headers else _CHAT)
    match method, path:
        case "POST", "chat/completions" | "responses" | "messages":
            return Route(wanted=Wanted.ANSWER, dialect=dialect)
        case "POST", "messages/count_tokens":
            return Route(wanted=Wanted.COUNT, dialect=dialect, tell=lambda count: {"input_tokens": count})
        case "GET", "models":
            return Route(wanted=Wanted.MODELS, dialect=dialect, tell=_models)
        case "GET", "responses" if "upgrade" in headers:
            return Route(wanted=Wanted.WEBSOCKET, dialect=dialect)
    return Route(wanted=Wanted.NOTHING, dialect=dialect)


def _googles(method: str, path: str, query: Mapping[str, str]) -> Route:
    name, _, action = path.rpartition(":")
    name = name.removeprefix("models/")
    match method, action:
        case "POST", "generateContent" if name:
            return Route(wanted=Wanted.ANSWER, dialect=_GEMINI, told={"model": name, "stream": False})
        case "POST", "streamGenerateContent" if name and query.get("alt") == "sse":
            return Route(wanted=Wanted.ANSWER, dialect=_GEMINI, told={"model": name, "stream": True})
        case "POST", "streamGenerateContent" if name:
            return Route(wanted=Wanted.NOTHING, dialect=_GEMINI, hint="; streams are told as events: add ?alt=sse")
        case "POST", "countTokens" if name:
            return Route(wanted=Wanted.COUNT, dialect=_GEMINI, tell=lambda count: {"totalTokens": count})
        case "GET", "models":
            return Route(wanted=Wanted.MODELS, dialect=_GEMINI, tell=lambda name: {"models": [_googles_model(name)]})
        case "GET", _ if path.startswith("models/"):
            return Route(wanted=Wanted.MODELS, dialect=_GEMINI, tell=_googles_model)
    return Route(wanted=Wanted.NOTHING, dialect=_GEMINI)


def _models(name: str) -> dict[str, Any]:
    model = {"id": name, "object": "model", "type": "model", "display_name": name, "created": 0, "owned_by": "proxy"}
    return {"object": "list", "data": [model], "has_more": False, "first_id": name, "last_id": name}


def _googles_model(name: str) -> dict[str, Any]:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
