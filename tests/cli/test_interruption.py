import pytest
from command_line import STAGES

from bayes_cpt.cli.running import FitClock, explained

FIRST, LAST = STAGES


class Seconds:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return self.passed


def test_before_sampling_nobody_knows_how_long_it_takes() -> None:
    seconds = Seconds()
    clock = FitClock(lambda stage, share: None, seconds)
    clock(FIRST, 0.0)
    seconds.passed = 12.0
    assert clock.words() == (
        "Interrupted after 12 s, nothing was written. A fit cannot be resumed: start it again, "
        "it had not come far enough to tell how long it takes. The same --seed gives the same draws."
    )


@pytest.mark.parametrize(
    ("share", "said"), [(0.5, "about 50 s."), (0.25, "about 90 s."), (0.01, "about 34 minutes.")]
)
def test_the_whole_is_what_came_before_and_the_share_of_sampling(share: float, said: str) -> None:
    seconds = Seconds()
    told = []
    clock = FitClock(lambda stage, share: told.append((stage, share)), seconds)
    clock(FIRST, 0.0)
    seconds.passed = 10.0
    clock(LAST, 0.0)
    seconds.passed = 30.0
    clock(LAST, share)
    assert said in clock.words()
    assert told == [(FIRST, 0.0), (LAST, 0.0), (LAST, share)]


def test_a_later_attempt_counts_what_the_earlier_ones_took() -> None:
    seconds = Seconds()
    clock = FitClock(lambda stage, share: None, seconds)
    clock(LAST, 1.0)
    seconds.passed = 60.0
    clock(f"{LAST}, attempt 2", 0.0)
    seconds.passed = 80.0
    clock(f"{LAST}, attempt 2", 0.5)
    assert "about 100 s." in clock.words()


def test_an_interruption_carries_the_words() -> None:
    def interrupted() -> None:
        with explained(lambda stage, share: None) as clock:
            clock(LAST, 0.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="A fit cannot be resumed"):
        interrupted()
