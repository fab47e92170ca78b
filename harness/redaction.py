"""Takes secrets out of text: the run's own by value, in every form they travel in, and others by their known shape.

By value is what is relied upon. The shapes catch what nobody handed to us, and are strict enough to leave ordinary
words, code and numbers alone.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"
MIN_LENGTH = 6
"""Shorter values are not redacted: they would take ordinary text with them."""

_HOLD = 4096
"""Characters that a stream keeps back; no shape is longer."""

_NAME = (
    r"(?:COOKIES?|AUTHORIZATION|SESSION(?:_?ID)?|TOKEN|SECRET|PASSWORD|PASSWD"
    r"|API_?KEY|ACCESS_KEY(?:_ID)?|SECRET_KEY|PRIVATE_KEY|CREDENTIALS?)"
)
_DIGIT_AHEAD = r"(?=[^\s\"']{0,200}?[0-9])"
_SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("sk-",), r"(?<![\w-])sk-(?=[\w-]{0,200}?[0-9])[\w-]{0,40}?[A-Za-z0-9]{16}[\w-]{0,200}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"(?<!\w)gh[pousr]_[A-Za-z0-9]{30,255}"),
    (("github_pat_",), r"(?<!\w)github_pat_\w{22,255}"),
    (("akia", "asia"), r"(?<!\w)(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)"),
    (("xox",), r"(?<!\w)xox[abprs]-[A-Za-z0-9-]{10,250}"),
    (("hf_",), r"(?<!\w)hf_[A-Za-z0-9]{30,100}"),
    (("aiza",), r"(?<!\w)AIza[\w-]{35}(?!\w)"),
    (("bearer",), rf"(?i:(?<!\w)(bearer\s{{1,8}}){_DIGIT_AHEAD}[\w.~+/=-]{{12,4000}})"),
    (
        ("authorization",),
        r"(?i:(?<!\w)(authorization[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:bearer|basic|token|digest|apikey)\s{1,8})"
        r"[^\s\"',;]{6,4000})",
    ),
    (
        ("authorization", "x-api-key"),
        rf"(?i:(?<!\w)((?:authorization|x-api-key)[\"']?\s{{0,8}}[:=]\s{{0,8}}[\"']?){_DIGIT_AHEAD}"
        r"[\w.~+/=-]{8,4000})",
    ),
    (
        ("cookie",),
        r"(?i:(?<!\w)((?:set-)?cookie[\"']?\s{0,8}[:=]\s{0,8}[\"']?)[\w.-]{1,200}=[^\s\"';]{4,2000}"
        r"(?:; ?[\w.-]{1,100}(?:=[^\s\"';]{0,200})?){0,8})",
    ),
    (
        ("cookie", "authorization", "session", "token", "secret", "passw", "key", "credential"),
        rf"(?<![A-Za-z0-9])({_NAME}=[\"']?){_DIGIT_AHEAD}[\w.~+/=%:-]{{8,4000}}",
    ),
    (("://",), r"(://)[^\s/@:\"']{1,200}:[^\s/@\"']{3,500}(?=@)"),
    (
        ("private key-----",),
        r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{20,4000}",
    ),
)
"""What each shape cannot do without, in lower case, and its expression; a group in it is what stays."""

_SECRET_NAME = re.compile(rf"(?:^|_|-){_NAME}$", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether a variable or header of that name usually holds a secret, e.g. OPENAI_API_KEY, Cookie, SESSION."""
    return _SECRET_NAME.search(name.replace("-", "_")) is not None


class Redactor:
    """Replaces secrets by `[redacted]`. Its repr tells nothing.

    Raises nothing, whatever the text; values shorter than `MIN_LENGTH` are ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= MIN_LENGTH for form in _forms(secret)}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._values = re.compile("|".join(map(re.escape, self._forms)))
        self._hold = max([_HOLD, *map(len, self._forms)])

    def __call__(self, text: str) -> str:
        for pattern in self._candidates(text):
            text = pattern.sub(_keep_label, text)
        return text

    def stream(self) -> RedactedStream:
        """For text that arrives in pieces: a secret across their borders is found too."""
        return RedactedStream(self, self._hold)

    def safe_cut(self, text: str, cut: int) -> int:
        """The last place up to `cut` that splits no secret."""
        patterns = list(self._candidates(text))
        before = -1
        while cut != before:
            before = cut
            for match in (match for pattern in patterns for match in pattern.finditer(text)):
                if match.start() < cut < match.end():
                    cut = match.start()
        return cut

    def _candidates(self, text: str) -> Iterator[re.Pattern[str]]:
        """The expressions that can match at all: looking for plain words first is what makes this fast."""
        if len(text) < MIN_LENGTH:
            return
        if any(form in text for form in self._forms):
            yield self._values
        lower = text.lower()
        if _ANY_NEEDLE.search(lower) is None:
            return
        for needles, pattern in _COMPILED:
            if any(needle in lower for needle in needles):
                yield pattern


class RedactedStream:
    """Feeds on pieces of text and gives back what is certain to be clean; `finish` gives the rest."""

    def __init__(self, redactor: Redactor, hold: int) -> None:
        self._redactor = redactor
        self._hold = hold
        self._buffer = ""

    def feed(self, piece: str) -> str:
        """Take one more piece, and return the clean text that it completes."""
        self._buffer += piece
        if len(self._buffer) < 2 * self._hold:
            return ""
        cut = self._redactor.safe_cut(self._buffer, len(self._buffer) - self._hold)
        ready, self._buffer = self._buffer[:cut], self._buffer[cut:]
        return self._redactor(ready)

    def finish(self) -> str:
        """The rest of the text."""
        ready, self._buffer = self._buffer, ""
        return self._redactor(ready)


_COMPILED = [(needles, re.compile(pattern)) for needles, pattern in _SHAPES]
_ANY_NEEDLE = re.compile("|".join(sorted({re.escape(needle) for needles, _ in _SHAPES for needle in needles})))


def _keep_label(match: re.Match[str]) -> str:
    return next((label for label in match.groups() if label), "") + REDACTED


def _forms(secret: str) -> set[str]:
    """The secret as it is, inside a JSON string, in a URL, and in base64 at each of the three alignments."""
    forms = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(secret)[1:-1])[1:-1],
        quote(secret, safe="", errors="replace"),
        quote(secret, errors="replace"),
        quote_plus(secret, errors="replace"),
    }
    data = secret.encode("utf-8", "replace")
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + data).decode()
        first = (shift * 8 + 5) // 6
        last = (shift + len(data)) * 8 // 6
        inner = encoded[first:last]
        if len(inner) >= MIN_LENGTH:
            forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return forms
