"""Who may look: requests to this address by its own name, from a browser that was given the token, that only read.

A page of another site can make a browser ask us, also by a name of its own that it lets lead here; it cannot make the
browser say our name and send our cookie. The token stands in one address, printed once; it is exchanged for a cookie.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer, where it has none of its own."""


class Guard:
    """An ASGI application in front of another one, which sees only what may pass."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._cookie = f"harness_view_{port}"  # cookies do not tell ports apart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        request = Request(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await (self._refused(request) or self._app)(scope, receive, send_guarded)

    def _refused(self, request: Request) -> Response | None:
        """What a request gets that may not pass, or that brings the token."""
        if request.headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This host is not known here.\n", 403)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("Nothing can be changed here.\n", 405, {"allow": "GET, HEAD"})
        if (given := request.query_params.get("token")) is not None and self._is_token(given):
            rest = [pair for pair in parse_qsl(request.url.query, keep_blank_values=True) if pair[0] != "token"]
            target = request.url.path if not rest else f"{request.url.path}?{urlencode(rest)}"
            answer = RedirectResponse("/" + target.lstrip("/\\"), 303)
            answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return answer
        if not self._is_token(request.cookies.get(self._cookie, "")):
            return PlainTextResponse("Open the address that harness view printed: it holds the key.\n", 403)
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())
