"""What each of some runs would be worth to a decision, and would tell: the results of `next_run`."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayes_cpt.decisions.contenders import APART
from bayes_cpt.decisions.next_run.affordable import Affordable
from bayes_cpt.decisions.next_run.sample_information import DataValue, Information
from bayes_cpt.decisions.search.candidates import Candidates
from bayes_cpt.decisions.search.search_space import SearchSpace
from bayes_cpt.decisions.valuation import Valuation
from bayes_cpt.study.runs import Run
from bayes_cpt.views import Drawn

if TYPE_CHECKING:
    import pandas as pd

type Label = tuple[str, str]


@dataclass(frozen=True, eq=False)
class RunValues(Drawn):
    """What each of some runs would be worth, and would tell.

    Parameters
    ----------
    valuation : Valuation
        Objective and fit.
    space : SearchSpace
        What may be chosen.
    candidates : Candidates
        The configurations that are chosen from.
    now : int
        The one that is chosen as things stand.
    affordable : Affordable
        The runs and their costs.
    values : dict of str to DataValue
        By run.
    told : dict of str to Information
        By run, about `quantities`.
    quantities : list of (str, str)
        Coefficient or effect, and validation set (``all`` where it is shared).
    lengthening : dict of str to float
        By how much the expected loss would fall if the cost of each run went into more steps of the
        configuration that is chosen now, nats.
    outside : dict of str to str
        Of each run in words where it leaves what was fitted.
    """

    valuation: Valuation
    space: SearchSpace
    candidates: Candidates
    now: int
    affordable: Affordable
    values: dict[str, DataValue]
    told: dict[str, Information]
    quantities: list[Label]
    lengthening: dict[str, float]
    outside: dict[str, str]

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, in the order of the plan."""
        return self.affordable.plan.runs

    @cached_property
    def order(self) -> list[str]:
        """Names of the runs, the highest value per cost first."""
        paid = {
            run.name: self.values[run.name].value / self.affordable.cost(run) for run in self.runs
        }
        return sorted(paid, key=lambda name: -paid[name])

    @property
    def perfect(self) -> tuple[float, float]:
        """Expected value of knowing all expected losses and its Monte Carlo error, nats."""
        gains = next(iter(self.values.values())).perfect
        return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(gains.size))

    def price(self, name: str) -> float:
        """Return what the objective charges for a run, nats.

        Parameters
        ----------
        name : str
            Of a run that could come next.
        """
        cost = self.affordable.cost(self.affordable.plan.run(name))
        return float(self.valuation.objective.cost(cost, self.valuation.resources))

    def hurdle(self, name: str) -> float:
        """Return what a run must be worth to pay: its price, or what its cost would bring elsewhere.

        Without a price in the objective, that is what the same steps spent on the chosen configuration
        would gain.

        Parameters
        ----------
        name : str
            Of a run that could come next.
        """
        return self.price(name) or max(self.lengthening[name], 0.0)

    def as_good(self, name: str, errors: float = 2.0) -> list[str]:
        """Return the runs whose value per cost is not told apart from another's, draw by draw.

        Parameters
        ----------
        name : str
        errors : float
            Monte Carlo errors of the difference.
        """
        gains = {
            run.name: self.values[run.name].gains / self.affordable.cost(run) for run in self.runs
        }
        as_good = []
        for other in self.order:
            gap = gains[name] - gains[other]
            error = gap.std(ddof=1) / np.sqrt(gap.size)
            if other != name and gap.mean() <= errors * error:
                as_good.append(other)
        return as_good

    def changes(self, name: str) -> float:
        """Return how probably the configuration chosen after a run is well apart from the present one.

        Apart is another value of a list, or a fifth of a range.

        Parameters
        ----------
        name : str
            Of a run that could come next.
        """
        chosen, now = self.values[name].chosen, self.now
        places, cells = self.candidates.places, self.candidates.cells
        distance = np.abs(places[chosen] - places[now]).max(axis=1, initial=0.0)
        return float(np.mean((cells[chosen] != cells[now]) | (distance >= APART)))

    def after(self, name: str, quantity: str) -> NDArray[Any]:
        """Return what is chosen of a quantity after each simulated curve of a run, shape (draws,).

        Parameters
        ----------
        name : str
            Of a run that could come next.
        quantity : str
            Such as replay or relative_peak.
        """
        return self.candidates.column(quantity)[self.values[name].chosen]

    def table(self) -> "pd.DataFrame":
        """Return one row per run, the highest value per cost first.

        Returns
        -------
        DataFrame
            run, base, replay, steps, cost (steps); value (EVSI, nats of the objective) and its Monte Carlo
            error; share (of the value of perfect information), per_1000_steps (value per 1,000 steps of
            cost), hurdle (see `hurdle`), changes (see `changes`), about, on and nats (the quantity that it
            tells most about), outside (what was fitted).
        """
        import pandas as pd

        rows = []
        for name in self.order:
            run, worth, told = self.affordable.plan.run(name), self.values[name], self.told[name]
            cost, most = self.affordable.cost(run), int(told.share.argmax())
            rows.append(
                {
                    "run": name,
                    "base": run.base or "",
                    "replay": run.replay,
                    "steps": run.schedule.steps,
                    "cost": cost,
                    "value": worth.value,
                    "error": worth.error,
                    "share": worth.value / self.perfect[0] if self.perfect[0] > 0 else 0.0,
                    "per_1000_steps": 1000.0 * worth.value / cost,
                    "hurdle": self.hurdle(name),
                    "changes": self.changes(name),
                    "about": self.quantities[most][0],
                    "on": self.quantities[most][1],
                    "nats": float(told.nats[most]),
                    "outside": self.outside[name],
                }
            )
        return pd.DataFrame(rows)

    def information_table(self) -> "pd.DataFrame":
        """Return what each run would tell, one row per run and quantity.

        Returns
        -------
        DataFrame
            run, quantity, domain, variance (expected share of the variance of its normal score that the run
            takes away), error (Monte Carlo), nats (expected information, a lower bound), per_1000_steps.
        """
        import pandas as pd

        rows = []
        for name in self.order:
            told = self.told[name]
            cost = self.affordable.cost(self.affordable.plan.run(name))
            for index, (quantity, domain) in enumerate(self.quantities):
                rows.append(
                    {
                        "run": name,
                        "quantity": quantity,
                        "domain": domain,
                        "variance": float(told.share[index]),
                        "error": float(told.error[index]),
                        "nats": float(told.nats[index]),
                        "per_1000_steps": 1000.0 * float(told.nats[index]) / cost,
                    }
                )
        return pd.DataFrame(rows)
