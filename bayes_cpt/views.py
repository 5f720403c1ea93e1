"""What is made of a result: its words, tables, figure and forecast, found when somebody asks for them.

Results are typed objects that know nothing of words, tables or figures: what makes those comes after them.
So that ``choice.plot()`` is there all the same, the method asks here. Modules are named as text and
imported at the call: this is the one way in which a room reaches another that comes after it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# By the type of a result and the name of its method.
VIEWS = {
    "Posterior.predict": "bayes_cpt.forecast.predict.predict",
    "Posterior.report": "bayes_cpt.report.page.report.report",
    "Report.html": "bayes_cpt.report.page.page.page",
    "Decision.table": "bayes_cpt.report.decision_tables.contender_table",
    "Decision.optimum_table": "bayes_cpt.report.decision_tables.optimum_table",
    "Decision.front_table": "bayes_cpt.report.decision_tables.front_table",
    "Decision.words": "bayes_cpt.report.words.decision.words",
    "Decision.plot": "bayes_cpt.plots.decision.decision",
    "RunValues.words": "bayes_cpt.report.words.next_run.words",
    "RunValues.plot": "bayes_cpt.plots.next_run.next_run",
    "ScheduleChoice.words": "bayes_cpt.report.words.schedule.words",
    "ScheduleChoice.plot": "bayes_cpt.plots.free_schedule.free_schedule",
    "Comparison.words": "bayes_cpt.report.words.comparison.words",
    "Comparison.plot": "bayes_cpt.plots.comparison.comparison",
    "Status.verdict": "bayes_cpt.report.words.watch.verdict",
    "Survey.words": "bayes_cpt.report.words.landmark.words",
}


def view(result: object, name: str, *arguments: Any, **options: Any) -> Any:
    """Return one view of a result.

    Parameters
    ----------
    result : object
        Of a type in `VIEWS`, or of one made from it; what makes the view gets it first.
    name : str
        Of the view, as in `VIEWS`.
    *arguments, **options
        As what makes the view takes them.
    """
    places = [f"{kind.__name__}.{name}" for kind in type(result).__mro__]
    module, function = next(VIEWS[place] for place in places if place in VIEWS).rsplit(".", 1)
    return getattr(import_module(module), function)(result, *arguments, **options)


class Worded:
    """A result that says in words what to do, how sure that is and what would change it."""

    def verdict(self, interval: float = 0.9) -> list[str]:
        """Return what to do, how sure that is and what would change it, a short line each.

        Parameters
        ----------
        interval : float
            Mass of the intervals.
        """
        return list(view(self, "words", interval).verdict)

    def sentences(self, interval: float = 0.9) -> list[str]:
        """Return what to do and why, one paragraph per question, each with its probability.

        Parameters
        ----------
        interval : float
            Mass of the intervals.
        """
        return list(view(self, "words", interval).paragraphs)


class Drawn(Worded):
    """A result that has a figure too."""

    def plot(self) -> "Figure":
        """Return the figure of the result: of `bayes_cpt.plots`, the one that `VIEWS` names."""
        return cast("Figure", view(self, "plot"))
