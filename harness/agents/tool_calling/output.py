"""Text for the model's eyes: bounded, with its beginning and its end kept."""

from __future__ import annotations


def shorten(text: str, limit: int) -> str:
    """`text` with at most `limit` characters of its own: head and tail, and a note on what is left out between.

    Never longer than `text`: it stays whole where the note would take more room than what it stands for.
    """
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    left_out = len(text) - head - tail
    note = f"\n[... {left_out} of {len(text)} characters left out ...]\n"
    return f"{text[:head]}{note}{text[len(text) - tail :]}" if len(note) < left_out else text
