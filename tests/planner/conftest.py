import pytest
from planned import CANDIDATES, DRAWS, OBJECTIVE, SEED
from synthetic import lab_posterior

from bayes_cpt.planner.page import Planner


@pytest.fixture(scope="session")
def planner() -> Planner:
    """Return the planner of a posterior that cost no sampling."""
    return Planner.of(lab_posterior(), OBJECTIVE, draws=DRAWS, candidates=CANDIDATES, seed=SEED)
