"""A clock that runs faster than the machine's, the same in every process of a test.

`TINYJOBS_TEST_SPEED` holds the factor, and the instant at which both clocks agreed, as in `600 1780000000.5`.
"""

import asyncio
import os
import time

from tinyjobs.core.clock import Clock, SystemClock

VARIABLE = "TINYJOBS_TEST_SPEED"


class FastClock:
    """Seconds of this clock are `factor` times as short."""

    def __init__(self, factor: float, agreed_at: float) -> None:
        self._factor = factor
        self._agreed_at = agreed_at

    def now(self) -> float:
        return self._agreed_at + (time.time() - self._agreed_at) * self._factor

    def monotonic(self) -> float:
        return time.monotonic() * self._factor

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._factor)


def switch(factor: float) -> dict[str, str]:
    """The environment of processes that live `factor` times as fast from now on."""
    return {VARIABLE: f"{factor} {time.time()}"}


def clock(environment: dict[str, str] | None = None) -> Clock:
    """The clock that the environment asks for."""
    told = (environment or dict(os.environ)).get(VARIABLE)
    return FastClock(*map(float, told.split())) if told else SystemClock()
