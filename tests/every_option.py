"""A model with every option of the law, beside the shipped one that it is made from."""

import re
import tomllib
from pathlib import Path
from typing import Any

from bayes_cpt.model.spec import ModelSpec, parse_spec, shipped_models

LAW = {
    "terms": ["power", "annealing", "peak", "shift", "damage"],
    "count_warmup": True,
    "memory_clock": 0.7,
    "carry_memory": True,
}
RESIDUALS = {"skip_pretraining": 0.02, "skip_warmups": 9.0, "skip_longest": 0.25}
BOUNDS = "lower = 5.0, upper = 10000.0"
PRIORS = {
    "memory": f'distribution = "lognormal", median = 80.0, sigma = 0.9, {BOUNDS}',
    "slow_memory": (
        'distribution = "lognormal", median = 0.4, sigma = 0.6, lower = 0.05, upper = 4.0'
    ),
    "slow_share": 'distribution = "logitnormal", median = 0.3, sigma = 1.0',
    "forward_power": (
        'distribution = "lognormal", median = 0.65, sigma = 0.18, lower = 0.1, upper = 1.6'
    ),
    "shift_power": (
        'distribution = "lognormal", median = 0.9, sigma = 0.3, lower = 0.3, upper = 2.5'
    ),
    "level_power": 'distribution = "lognormal", median = 0.72, sigma = 0.22',
    "peak_power": 'distribution = "normal", mean = 0.6, sd = 0.2',
    "peak_slope": 'distribution = "normal", mean = 0.03, sd = 0.02',
    "peak_curvature": 'distribution = "normal", mean = 0.02, sd = 0.02',
}


def text_with(**options: Any) -> str:
    """Return the text of cpt-replay with all options of the law on, but for those that are given.

    A parameter given as ``"printed"`` has no prior.
    """
    text = shipped_models()["cpt-replay"].read_text(encoding="utf-8")
    law = LAW | {name: value for name, value in options.items() if name not in PRIORS}
    for name in (*law, *RESIDUALS):
        text = re.sub(rf"^{name} = .*\n", "", text, flags=re.M)
    for table, keys in (("law", law), ("residuals", RESIDUALS)):
        lines = "".join(f"{name} = {str(value).lower()}\n" for name, value in keys.items())
        text = text.replace(f"[{table}]\n", f"[{table}]\n{lines}")
    for name, prior in PRIORS.items():
        text = re.sub(rf"^\[priors\.{name}\]\n(?:[^\[\n].*\n|\n)*", "", text, flags=re.M)
        if ("slow_share" if name == "slow_memory" else name) not in options:
            text += f'[priors.{name}]\nreason = "of a test"\nevery = {{ {prior} }}\n'
    return text


def spec_with(**options: Any) -> ModelSpec:
    """Return the specification of `text_with`."""
    return parse_spec(tomllib.loads(text_with(**options)), "every option")


def file_with(folder: Path, **options: Any) -> Path:
    """Return a file of `text_with`."""
    path = folder / "every.toml"
    path.write_text(text_with(**options), encoding="utf-8")
    return path
