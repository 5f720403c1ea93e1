"""Settings of the planner's page that nobody chose, and the objective that its tests balance by."""

from typing import Any

import numpy as np

from bayes_cpt.decisions.objective import Objective
from bayes_cpt.planner.choices import SHAPES
from bayes_cpt.planner.page import Planner

OBJECTIVE = Objective.model_validate(
    {
        "weights": {"general": 0.3, "target": 0.7},
        "mixtures": {"code": {"general": -0.1, "target": 1.1}},
        "constraints": (
            {"domain": "general", "rise": 0.1, "probability": 0.2},
            {"domain": "code", "limit": 2.6, "probability": 0.1, "kind": "expected"},
        ),
    }
)
DRAWS, CANDIDATES, SEED = 40, 64, 3


def random_settings(planner: Planner, count: int, seed: int) -> list[dict[str, Any]]:
    """Return settings of the controls, some at the ends of what they can say."""
    generator = np.random.default_rng(seed)

    def share(name: str) -> float:
        ends = [planner.data["ranges"][name][end] for end in ("min", "max")]
        if generator.random() < 0.2:
            return float(generator.choice(ends))
        return round(float(generator.uniform(*ends)), 3)

    return [
        {
            "base": int(generator.integers(len(planner.data["bases"]))),
            "steps": int(generator.choice(planner.data["lengths"])),
            "peak": float(
                generator.choice([*planner.data["peaks"][::7], planner.data["peaks"][-1]])
            ),
            "shape": str(generator.choice(list(SHAPES))),
            "kind": str(generator.choice(["new_run", "expected"])),
            "weight": round(float(generator.uniform()), 2),
            "constraints": planner.data["start"]["constraints"],
            **{name: share(name) for name in ("replay", "warmup", "decay", "final")},
        }
        for _ in range(count)
    ]
