"""What a call costs, where the price is known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens. Without a price of its own, cached input costs what input costs."""

    input: float
    output: float
    cached: float | None = None

    def of(self, prompt: int | None, cached: int | None, completion: int | None) -> float | None:
        """The cost in US dollars; None when the token counts are not known. `prompt` includes `cached`."""
        if prompt is None or completion is None:
            return None
        reused = min(cached or 0, prompt)
        cached_price = self.input if self.cached is None else self.cached
        return ((prompt - reused) * self.input + reused * cached_price + completion * self.output) / 1e6
