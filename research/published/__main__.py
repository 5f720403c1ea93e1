"""Make studies from published files: whoever has no access to ours can rerun what the docs report.

    PYTHONPATH=research python -m published lr-scheduling data/*.json -o studies/lr-124m
    PYTHONPATH=research python -m published ladder 190M-*.csv -o studies/ladder-190m
    PYTHONPATH=research python -m published multi-power csv_25/*.csv --size 25 -o studies/mpl-25m
    PYTHONPATH=research python -m published mixing-laws data/ct/70M.txt -o studies/pythia-python
    PYTHONPATH=research python -m published tables sweep.csv -o studies/sweep

Each file's layout is documented in its converter. Which runs a study of the held-out page fits, and which
it is asked for, docs/results/held-out.md says: give the files of these runs alone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from bayes_cpt.study.folder import write_study
from published import ladder, lr_scheduling, mixing_laws, multi_power, tables

KINDS = ("lr-scheduling", "ladder", "multi-power", "mixing-laws", "tables")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m published", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the study")
    parser.add_argument("--size", type=float, default=25.0, help="multi-power: millions")
    parser.add_argument("--validation", default="c4_en", help="ladder: validation set")
    parser.add_argument("--peak", type=float, default=1e-3, help="mixing-laws: assumed peak")
    options = parser.parse_args(arguments)
    files, name = sorted(options.files), options.out.name
    if options.kind == "lr-scheduling":
        study = lr_scheduling.convert(files, name)
    elif options.kind == "ladder":
        study = ladder.convert(files, name, options.validation)
    elif options.kind == "multi-power":
        study = multi_power.convert(files, name, options.size)
    elif options.kind == "tables":
        study = tables.convert(files, name)
    else:
        study = mixing_laws.convert(files, name, options.peak)
    write_study(study, options.out)


if __name__ == "__main__":
    main()
