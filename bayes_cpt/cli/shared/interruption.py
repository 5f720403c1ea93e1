"""What somebody is told who interrupts a fit."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bayes_cpt.cli.shared.console import Progress

MINUTE = 60.0
SAMPLING = "sampling"


class FitClock:
    """How far a fit has come, and how long the whole of it takes.

    Parameters
    ----------
    tell : callable
        What is told of stages and shares besides.
    now : callable
        Seconds that have passed.
    """

    def __init__(self, tell: Progress, now: Callable[[], float] = time.monotonic) -> None:
        self.tell, self.now = tell, now
        self.started = now()
        self.stage, self.since, self.share = "", self.started, 0.0

    def __call__(self, stage: str, share: float) -> None:
        """Note a stage and the share of it that is done."""
        if stage != self.stage:
            self.stage, self.since = stage, self.now()
        self.share = share
        self.tell(stage, share)

    def words(self) -> str:
        """Return what an interruption means, for the one who interrupted."""
        now = self.now()
        if self.stage.startswith(SAMPLING) and self.share > 0.0:
            whole = self.since - self.started + (now - self.since) / self.share
            again = f"start it again, it takes about {_duration(whole)}"
        else:
            again = "start it again, it had not come far enough to tell how long it takes"
        return (
            f"Interrupted after {_duration(now - self.started)}, nothing was written. A fit cannot be "
            f"resumed: {again}. The same --seed gives the same draws."
        )


@contextmanager
def explained(tell: Progress) -> Iterator[FitClock]:
    """Give a clock for a fit; an interruption inside then says what it means."""
    clock = FitClock(tell)
    try:
        yield clock
    except KeyboardInterrupt:
        raise KeyboardInterrupt(clock.words()) from None


def _duration(seconds: float) -> str:
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.0f} minutes"
