"""What speed.py measures: a number with its bar."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One thing measured. `bar` is the most it may be, or with `least` the least."""

    part: str
    vault: str
    what: str
    value: float
    unit: str
    bar: float | None = None
    least: bool = False

    @property
    def holds(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.least else self.value <= self.bar

    @property
    def shown_bar(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.bar:g}"


def show(value: float) -> str:
    """A figure with three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
