"""Write the table of the README from the results in docs/results: ``python research/readme_table.py``.

`tests/test_results.py` holds the README, and the tables of docs/results, to the files.
"""

from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
BEGIN, END = "<!-- results:begin readme", "<!-- results:end -->"
# Sets of the README, the worst among them, in its words.
SETS = {
    "each run of cpt-lab": "each of ten lab runs, from the nine others (the package was tuned on these)",
    "longer runs general": "three lab runs of 5,000 to 12,000 steps, from runs of 3,000: general loss",
    "longer runs target": "the same: target loss",
    "strong shift": "each of five lab runs to a distant target, from the four others",
    "Pythia-70M unknown base": "each of three runs of Pythia-70M to Python, pre-training unknown",
    "public studies left-out priors": "published pre-training runs; priors learnt from other sources",
    "sweeps by peak learning rate": "small models at peak learning rates that were not fitted",
}


def main() -> None:
    """Replace what stands between the marks of the README."""
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    mark, rest = rest.split("\n", 1)
    _, tail = rest.split(END)
    page.write_text(f"{head}{BEGIN}{mark}\n{readme_table()}\n{END}{tail}", encoding="utf-8")


def readme_table() -> str:
    """Return what the README says of forecasts and of decisions."""
    sets = pd.read_csv(RESULTS / "held-out.csv").set_index("set")
    lines = ["| held-out runs | runs | 90 % bands cover |", "|---|---|---|"]
    for name, words in SETS.items():
        found = sets.loc[name]
        lines.append(f"| {words} | {found['runs']} | {found['in_90']:g} % |")
    choices = pd.read_csv(RESULTS / "decisions.csv")
    ours, stated, paper = (choices[name] / 1000 for name in ("bayes_cpt", "stated", "paper"))
    lines += [
        "",
        "On 200 simulated studies [the chosen run](docs/results/decisions.md) ends on average "
        f"{ours.min():.4f} to {ours.max():.4f} nats/token",
        "above the best possible one, depending on the objective; the package's own estimates of that, "
        f"{stated.min():.4f} to {stated.max():.4f},",
        "are too cautious. Runs chosen by the paper's point estimate end "
        f"{paper.min():.4f} to {paper.max():.4f} above it.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
