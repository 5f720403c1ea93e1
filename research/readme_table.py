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
    "each run of cpt-lab": "each of ten lab runs, from the nine others; settings were chosen here",
    "longer runs general": "general loss of three longer lab runs",
    "longer runs target": "target loss of the same",
    "strong shift": "five runs to a far target",
    "Pythia-70M unknown base": "Pythia-70M to Python, pre-training unknown",
    "public studies left-out priors": "published pre-training, priors from other repositories",
    "sweeps by peak learning rate": "sweeps of small models by peak learning rate",
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
        "On 200 simulated studies the run that `decide` chose ended "
        f"{ours.min():.4f} to {ours.max():.4f} nats/token above the best",
        f"possible run, depending on the objective; its stated expected regret was {stated.min():.4f} to "
        f"{stated.max():.4f}.",
        f"With the paper's point estimate it was {paper.min():.4f} to {paper.max():.4f}.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
