"""Settings chosen by the studies of other families, from scores made by hand."""

import pandas as pd
from testbench.families import VAGUE
from testbench.settings import (
    EARLIER,
    LATER,
    best_settings,
    candidates,
    report,
    settings_of,
)

from bayes_cpt.model.spec import read_spec

VAGUE_SPEC = read_spec(VAGUE)
STUDIES = ("size-1x1", "size-2x2", "mpl-1m", "ladder-1m")


def made_by_hand() -> pd.DataFrame:
    """Return scores of which a long memory of the misfit is good for the multi-power study alone."""
    crps = pd.DataFrame(0.004, index=list(STUDIES), columns=list(candidates(VAGUE_SPEC)))
    crps["misfit_memory_pt = 0.5"] = [0.005, 0.005, 0.001, 0.004]
    crps["skip_warmups = 24"] = 0.003
    return crps


def test_a_family_has_no_say_in_its_own_settings() -> None:
    crps = made_by_hand()
    own = settings_of(VAGUE_SPEC)
    assert best_settings(crps, VAGUE_SPEC) == own | {"misfit_memory_pt": 0.5, "skip_warmups": 24.0}
    assert best_settings(crps, VAGUE_SPEC, "mpl") == own | {"skip_warmups": 24.0}
    with_earlier = crps.copy()
    with_earlier["skip_warmups = 24"] = 0.002
    shown = report({LATER: crps, EARLIER: with_earlier}, VAGUE_SPEC)
    assert "without mpl" in shown
    (row,) = (line for line in shown.splitlines() if "skip_warmups = 24" in line)
    assert row.count("**0.750**") == 4
    assert row.count("0.500") == 1
