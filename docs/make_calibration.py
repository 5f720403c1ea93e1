"""Take the results of simulation-based calibration into the documentation.

Run ``PYTHONPATH=research python docs/make_calibration.py [NAME=]FOLDER ...``; ``python -m
testbench.calibration -o FOLDER`` fills each.
Draws a figure and writes a table per folder, under its name or that of its model, and prints the summary of
docs/results/calibration.md.
"""

import argparse
import json
import sys
from pathlib import Path

import pandas as pd
from make_images import ROOT, save
from testbench.calibration import EDGE, FAILS, HOLDS, draw_ranks, quantity_ranks, verdict

COLUMNS = (
    "model",
    "simulations",
    "quantities",
    "hold",
    "at the edge",
    "fail",
    "refits that fall short",
)


def main() -> None:
    """Write tables and figures, and print the summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folders", nargs="+", metavar="[NAME=]FOLDER", help="of testbench.calibration -o"
    )
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for given in parser.parse_args().folders:
        name, _, place = given.rpartition("=")
        folder = Path(place)
        model = json.loads((folder / "settings.json").read_text(encoding="utf-8"))["model"]
        name = name or model
        ranks = pd.read_csv(folder / "ranks.csv").sort_values("task")
        found = verdict(ranks)
        target = ROOT / "docs" / "calibration"
        target.mkdir(exist_ok=True)
        found.quantities.round(4).to_csv(target / f"{name}.csv", index=False)
        figure = draw_ranks(quantity_ranks(ranks))
        save(figure, ROOT / "docs" / "images" / f"calibration-{name}.png")
        counts = [int((found.quantities["verdict"] == own).sum()) for own in (HOLDS, EDGE, FAILS)]
        cells = (name, found.simulations, sum(counts), *counts, found.untrusted + found.failed)
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
