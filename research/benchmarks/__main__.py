"""Run benchmarks and print a table of ratios.

From the repository's root, each by its file's name; all of them unless named::

    PYTHONPATH=research python -m benchmarks
    PYTHONPATH=research python -m benchmarks gradient forecast -o benchmarks.md
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.report import cells, comma_separated, markdown

# In the order in which they run: the longest last.
BENCHMARKS = ("gradient", "decide", "forecast", "commands")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("-o", "--output", type=Path, help="a .md or .csv file to write")
    parser.add_argument("--quick", action="store_true", help="small sizes: do they run?")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    rows = []
    for name in BENCHMARKS:
        if options.names and name not in options.names:
            continue
        sys.stderr.write(f"{name} ...\n")
        own: list[list[str]] = []
        try:
            measured = import_module(f"benchmarks.{name}").measure(quick=options.quick)
            for row in measured:
                own += [cells(name, row)]
                sys.stderr.write(f"  {row.what} {row.measured:.3g} {row.unit}\n")
        finally:
            # What was measured before a failure took long as well.
            sys.stdout.write(markdown(own) + "\n")
            rows += own
            if options.output:
                as_csv = options.output.suffix == ".csv"
                options.output.write_text(comma_separated(rows) if as_csv else markdown(rows))


if __name__ == "__main__":
    main()
