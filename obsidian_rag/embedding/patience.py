"""How long to go on trying what can pass."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


def back_off(attempt: int) -> float:
    """Seconds to wait after the failed attempt number `attempt`, from 1: 0.5, 1, 2, 4, 8, each ± half.

    The jitter keeps an indexer and a server that met the same busy moment from meeting again.
    """
    # Not for secrets: this only spreads the retries.
    return float(min(8.0, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.5, 1.5))


@dataclass(frozen=True, slots=True)
class Patience:
    """`tries` in all, within `deadline` seconds from the first; `timeout` seconds for one answer.

    `wait(attempt)` gives the pause after a failed attempt, `sleep` spends it: tests give their own.
    """

    tries: int
    deadline: float
    timeout: float
    wait: Callable[[int], float] = back_off
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def pause(self, attempt: int, started: float) -> bool:
        """Wait before the next attempt; False where there shall be none."""
        if attempt >= self.tries:
            return False
        seconds = self.wait(attempt)
        if self.clock() - started + seconds > self.deadline:
            return False
        self.sleep(seconds)
        return True


# An indexer has time; a person waiting for an answer has not, and keyword search answers meanwhile.
FOR_DOCUMENTS = Patience(tries=5, deadline=120.0, timeout=300.0)
FOR_QUERY = Patience(tries=3, deadline=15.0, timeout=30.0)
