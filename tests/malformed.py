"""A small valid study folder, and a table of edits that each make it malformed.

The error must contain every fragment: places first, then what is wrong and the fix.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

SETTINGS = """\
[study]
name = "small"
general = "prose"
target = "code"

[bases.half]
steps = 100
run = "trunk"
schedule = [
  { shape = "linear", steps = 10, start = 0, end = 2e-3 },
  { shape = "constant", steps = 90, start = 2e-3, end = 2e-3 },
]

[runs.trunk]
phase = "pt"
schedule = [
  { shape = "linear", steps = 10, start = 0, end = 2e-3 },
  { shape = "constant", steps = 110, start = 2e-3, end = 2e-3 },
]

[runs.mixed]
phase = "cpt"
base = "half"
replay = 0.25
optimizer_state = "carried"
schedule = [ { shape = "cosine", steps = 50, start = 2e-3, end = 0 } ]

[runs.logged]
phase = "cpt"
base = "half"
replay = 0.5
lr_log = true
"""
LOSSES = """\
run,step,domain,loss
trunk,50,prose,4.0
trunk,100,prose,3.5
trunk,100,code,4.2
mixed,0,prose,3.5
mixed,0,code,4.2
mixed,25,prose,3.6
mixed,25,code,3.9
mixed,50,code,3.7
logged,0,prose,3.5
logged,3,prose,3.52
logged,3,code,4.1
"""
RATES = """\
run,step,lr
logged,1,2e-3
logged,2,1e-3
logged,3,5e-4
"""
FILES = {"study.toml": SETTINGS, "losses.csv": LOSSES, "lr.csv": RATES}

# What stands in place of the files of the valid study, by name; None of one that is left out.
type Files = Mapping[str, str | bytes | None]


class Malformed(NamedTuple):
    """One malformed study: its id, its files where they are not valid, and what the error must say."""

    id: str
    files: Files
    fragments: tuple[str, ...]
    path: str = ""  # inside the folder, of what is read

    def write(self, folder: Path) -> Path:
        """Write it into a folder, and return the path to read."""
        return write_files(folder, self.files) / self.path


def write_files(folder: Path, files: Files = MappingProxyType({})) -> Path:
    """Write the valid study with other files into the folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**FILES, **files}.items():
        if content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def edit(name: str, *replacements: tuple[str, str]) -> Files:
    """Return one file with texts replaced."""
    text = FILES[name]
    for old, new in replacements:
        assert old in text, f"{old!r} is not in {name}"
        text = text.replace(old, new, 1)
    return {name: text}


def row(text: str) -> Files:
    """Return the losses with one more row, on line 13."""
    return {"losses.csv": f"{LOSSES}{text}\n"}


def rate_row(text: str) -> Files:
    """Return the learning rates with one more row, on line 5."""
    return {"lr.csv": f"{RATES}{text}\n"}


def settings(old: str, new: str) -> Files:
    """Return study.toml with one edit."""
    return edit("study.toml", (old, new))


def perplexity(line: str) -> str:
    """Return a row of losses with its perplexity in place of its loss."""
    start, _, loss = line.rpartition(",")
    return f"{start},{math.exp(float(loss)):.2f}"


COSINE = '{ shape = "cosine", steps = 50, start = 2e-3, end = 0 }'
OF_MIXED = 'optimizer_state = "carried"\n'

# Rows from line 13 on, and what is said of each.
CELLS = {
    "mixed,30,prose,low": "line 13, run mixed, step 30, domain prose: the loss is 'low'. Give a",
    "mixed,31,prose,": "line 14, run mixed, step 31, domain prose: the loss is ''",
    "mixed,32,prose,nan": "the loss is 'nan'",
    "mixed,33,prose,inf": "the loss is 'inf'",
    "mixed,34,prose,-3.5": "the loss is '-3.5'",
    "mixed,30.5,prose,3": "the step is '30.5'. Give a whole number",
    "mixed,-1,prose,3": "the step is '-1'",
    "mixed,last,prose,3": "the step is 'last'",
    ",30,prose,3": "give the name of a run",
    "mixed,35,,3": "give the name of a domain",
}
# Wrong values of keys, and what is said of each.
STUDY_VALUES = {
    "lr_unit = 0": "table study, key lr_unit",
    "unique_tokens = { target = -1 }": "key unique_tokens, key target: Input should be greater than 0",
    'compute = { seconds_per_step = 1, price = "2 $" }': "key price: Input should be a valid number",
    "tokens_per_step = -1": "positive number of tokens",
}
RUN_VALUES = {
    "model_size = true": "key model_size: model_size is True. Give a positive number of millions",
    "batch_tokens = 0": "key batch_tokens: batch_tokens is 0",
    "sequence_length = 2.5": "key sequence_length: sequence_length is 2.5. Give a whole number",
    'optimizer_state = "kept"': '"carried" or "reset"',
}
SEGMENTS = {
    '{ shape = "cosine", steps = 0, start = 2e-3, end = -1e-5 }': "segment 1, key end: end is -1e-05",
    '{ shape = "cosine", steps = 50.0, start = nan, end = false }': "segment 2, key end: end is False",
    '{ shape = "cosine", steps = true, start = "2e-3", end = 0 }': "segment 3, key start: start is '2e-3'",
    '{ shape = "constant", steps = 5, start = 2e-3, end = 0 }': "equal, or write shape = linear",
    '{ shape = "exponential", steps = 5, start = 2e-3, end = 0 }': "at a small positive learning rate",
}

# fmt: off
TABLE: list[Malformed] = [
    # Paths and files
    Malformed("no-folder", {}, ("nowhere", "Check the spelling"), "nowhere"),
    Malformed("a-file", {}, ("study.toml", "Give the folder that holds study.toml"), "study.toml"),
    Malformed("no-settings", {"study.toml": None},
              ("study.toml: the file is missing",)),
    Malformed("no-losses", {"losses.csv": None}, ("losses.csv", "run, step, domain")),
    Malformed("both-tables", {"losses.parquet": b"PAR1"},
              ("both losses.csv and losses.parquet", "Remove one")),
    Malformed("broken-parquet", {"losses.csv": None, "losses.parquet": b"run,step,domain,loss"},
              ("losses.parquet", "not a Parquet file", "as CSV")),
    Malformed("no-log", {"lr.csv": None}, ("run logged, key lr_log", "Add rows run")),
    # Encodings and syntax
    Malformed("settings-not-utf8",
              {"study.toml": SETTINGS.replace("small", "ä").encode("latin-1")},
              ("study.toml", "not UTF-8", "Save the file as UTF-8")),
    Malformed("losses-not-utf8",
              {"losses.csv": LOSSES.replace("prose", "prosä").encode("latin-1")},
              ("losses.csv", "not UTF-8", "Save the file as UTF-8")),
    Malformed("not-toml", settings('general = "prose"', "general = prose"),
              ("study.toml", "not TOML", "line 3", "Fix the line")),
    Malformed("no-digit", settings("replay = 0.25", "replay = .25"), ("line 24", "write 0.2 for .2")),
    Malformed("empty-losses", {"losses.csv": ""}, ("losses.csv: the file is empty",)),
    Malformed("header-only", {"losses.csv": "run,step,domain,loss\n"},
              ("losses.csv: there is no loss", "Add one row per validation measurement")),
    Malformed("empty-settings", {"study.toml": ""}, ("study.toml", "there is no run")),
    Malformed("open-quote", row('"mixed,30,prose,3.5'),
              ("losses.csv, line 13", "not CSV", "Close the")),
    Malformed("short-line", row("mixed,30,prose"), ("losses.csv, line 13", "3 cells", "run, step")),
    Malformed("nested-settings", {"study.toml": f"a = {5000 * '['}{5000 * ']'}"},
              ("study.toml", "nested too deeply")),
    Malformed("digits", {"study.toml": f"a = {5000 * '9'}"}, ("study.toml", "digits")),
    Malformed("more-than-64-bits", {"study.toml": "[[a]]\nb = 9223372036854775808"},
              ("study.toml", "key a.b is a whole number of more than 64 bits")),
    # Columns
    Malformed("semicolons-and-decimal-comma",
              {"losses.csv": LOSSES.replace(",", ";") + "mixed;30;prose;3,5\n"},
              ("losses.csv, line 13", "'3,5'", "write 3.5, without a comma")),
    Malformed("decimal-comma", row("mixed,30,prose,3,5"),
              ("losses.csv, line 13", "5 cells", "write 3.5 with a point")),
    Malformed("commas", row('mixed,"1,000",prose,"3,5"'),
              ("losses.csv, line 13", "the step is '1,000'", "Write 1000,", "'3,5'", "Write 3.5, without")),
    Malformed("comment-first", {"losses.csv": f"# exported\n{LOSSES}"},
              ("losses.csv, line 1: the first line is a comment", "without #")),
    Malformed("index", {"losses.csv": "".join(f",{line}\n" for line in LOSSES.splitlines())},
              ("the column '' has no name", "index=False", "Name the columns run, step")),
    Malformed("columns", edit("losses.csv", ("run,step,domain,loss", "run,stpe,domain,bits")),
              ("losses.csv, column loss", "losses.csv, column bits", "Name the columns run, step",
               "losses.csv, column stpe", "did you mean 'step'")),
    Malformed("wide-table", {"losses.csv": "run,step,prose,code\nmixed,25,3.6,3.9\n"},
              ("losses.csv, column loss: the columns prose, code stand in place of domain and loss",
               "a row for each validation set", "bayes-cpt import csv --help")),
    Malformed("perplexities",
              edit("losses.csv", *((line, perplexity(line)) for line in LOSSES.splitlines()
                                   if line.startswith("mixed") and ",prose," in line)),
              ("run mixed", "2 of the run's 2 losses of prose are above 12.5", "look like perplexities",
               "natural logarithm of perplexity")),
    # Cells of losses.csv
    Malformed("cells", row("\n".join(CELLS)), tuple(CELLS.values())),
    # Rows of losses.csv
    Malformed("rows", row("mixed,25,prose,3.6\nmixd,30,prose,3.6\nmixed,51,prose,3.6\ntrunk,0,prose,6.9"),
              ("losses.csv, line 13, run mixed, step 25", "line 7 already", "Keep one of the two",
               "losses.csv, line 14, run mixd", "did you mean 'mixed'", "correct the name",
               "losses.csv, line 15, run mixed, step 51", "50 steps", "Lengthen the schedule",
               "losses.csv, line 16, run trunk, step 0", "a PT run has no step 0", "Remove the row")),
    Malformed("sets-absent",
              edit("study.toml", ('general = "prose"', 'general = "prise"'), ('= "code"', '= "law"')),
              ("losses.csv", "'prise'", "did you mean 'prose'", "Set general in [study]",
               "target validation set 'law'", "Set target in [study]")),
    Malformed("set-called-by-a-role", row("mixed,30,general,3.6"),
              ("losses.csv, domain general", "the general set of the study is prose", "another name")),
    # The [study] table
    Malformed("bare-study", settings('name = "small"\ngeneral = "prose"\ntarget = "code"\n', ""),
              ("key general", "neither a general nor a target set", "Write general =", "key name")),
    Malformed("target-is-general", settings('target = "code"', 'target = "prose"'),
              ("study.toml, key target", "both 'prose'", "Name two validation sets")),
    Malformed("name-number", settings('"small"', "3"), ("study.toml, key name", "name is 3")),
    Malformed("study-key", settings("target =", "goal ="),
              ("study.toml, table study, key goal", "unknown", "Use only name, general")),
    Malformed("top-table", settings("[runs.trunk]", "[run.trunk]"),
              ("study.toml, key run", "did you mean 'runs'")),
    Malformed("resources",
              settings('name = "small"', 'name = "small"\nunique_tokens = 2e9\ncompute = { gpus = 8 }'),
              ("study.toml, table study, key unique_tokens", "Write a table with the keys general",
               "study.toml, table study, key compute, key seconds_per_step", "is missing")),
    Malformed("unique-tokens-key",
              settings('name = "small"', 'name = "small"\nunique_tokens = { code = 1e9 }'),
              ("study.toml, table study, key unique_tokens, key code", "the keys are general, target")),
    Malformed("unique-tokens-uncounted",
              settings('name = "small"', 'name = "small"\nunique_tokens = { target = 1e6 }'),
              ("study.toml, table study, key unique_tokens", "Add tokens_per_step")),
    Malformed("study-values",
              settings('name = "small"', "\n".join(['name = "small"', *STUDY_VALUES])),
              tuple(STUDY_VALUES.values())),
    Malformed("runs-text", {"study.toml": 'runs = "all"'}, ("study.toml, table runs",)),
    # Bases
    Malformed("base-steps", settings("steps = 100", "steps = 99"),
              ("study.toml, base half, key steps", "99", "sum to 100", "Make both the number")),
    Malformed("base-steps-missing", settings("steps = 100\n", ""),
              ("study.toml, base half, key steps", "known = false")),
    Malformed("base-run", settings('run = "trunk"', 'run = "trnk"'),
              ("study.toml, base half, key run", "did you mean 'trunk'", "leave the key out")),
    Malformed("base-disagrees",
              settings("steps = 90, start = 2e-3, end = 2e-3", "steps = 90, start = 1e-3, end = 1e-3"),
              ("study.toml, base half, key run", "at step 11", "first 100 steps")),
    Malformed("base-too-long", settings("steps = 110", "steps = 80"),
              ("study.toml, base half, key run", "only 90", "correct the steps")),
    Malformed("known-text", settings('run = "trunk"', 'known = "no"'),
              ("study.toml, base half, key known", "without quotes")),
    # Runs
    Malformed("phase", settings('"pt"', '"pretrain"'),
              ("study.toml, run trunk, key phase", '"pt"')),
    Malformed("dot-in-a-name",
              {"study.toml": FILES["study.toml"].replace("[runs.mixed]", "[runs.lr2.5]"),
               "losses.csv": FILES["losses.csv"].replace("mixed,", "lr2.5,")},
              ("run lr2, key 5", 'in quotes, as in [runs."lr2.5"]', 'Add [runs."lr2.5"] to the settings')),
    Malformed("pt-with-base", settings('phase = "pt"', 'phase = "pt"\nbase = "half"'),
              ("study.toml, run trunk, key base", "a PT run has no base", "Leave base out")),
    Malformed("bare-runs",
              edit("study.toml", ('phase = "pt"\n', ""), ('base = "half"\nreplay = 0.25\n', "")),
              ("study.toml, run trunk, key phase", "run mixed, key base", "Name the checkpoint",
               "study.toml, run mixed, key replay", "share of general data")),
    Malformed("replay-percent", settings("replay = 0.25", "replay = 25"),
              ("study.toml, run mixed, key replay", "replay is 25", "Write 0.25 for 25 %")),
    Malformed("unknown-base", settings('base = "half"', 'base = "halve"'),
              ("study.toml, run mixed, key base", "did you mean 'half'", "Name one of half")),
    Malformed("run-key", settings(OF_MIXED, 'optimiser_state = "carried"\n'),
              ("study.toml, run mixed, key optimiser_state", "did you mean 'optimizer_state'")),
    Malformed("sizes-differ",
              edit("study.toml", ('run = "trunk"', 'run = "trunk"\nmodel_size = 106'),
                   (OF_MIXED, "model_size = 107\n")),
              ("study.toml, run mixed, key model_size", "107", "its base has 106",
               "Give both the same")),
    # Schedules
    Malformed("no-whole-sequence", settings(OF_MIXED, "batch_tokens = 65536\nsequence_length = 100000\n"),
              ("run mixed, key sequence_length", "100000 tokens, and a whole batch 65536. Give the")),
    Malformed("run-values", settings(OF_MIXED, "\n".join(RUN_VALUES) + "\n"),
              tuple(RUN_VALUES.values())),
    Malformed("segment-values", settings(COSINE, ", ".join(SEGMENTS)), tuple(SEGMENTS.values())),
    Malformed("no-schedule", settings(f"schedule = [ {COSINE} ]\n", ""),
              ("study.toml, run mixed, key schedule", "lr_log = true")),
    Malformed("no-segment", settings(f"[ {COSINE} ]", "[]"),
              ("study.toml, run mixed, key schedule", "no segment", "Give at least one")),
    Malformed("schedule-text", settings(f"[ {COSINE} ]", '"cosine"'),
              ("study.toml, run mixed, key schedule", "'cosine'", "Write a list of segments")),
    Malformed("shape", settings('"cosine"', '"cosin"'),
              ("study.toml, run mixed, segment 1, key shape", "did you mean 'cosine'")),
    Malformed("segment-key", settings("steps = 50", "step = 50"),
              ("study.toml, run mixed, segment 1, key step", "did you mean 'steps'")),
    Malformed("rate-without-unit", settings("start = 2e-3, end = 0 }", "start = 2.0, end = 0 }"),
              ("study.toml, run mixed, key schedule", "above 0.1", "2e-4 and not 2.0",
               "lr_unit = 1e-4")),
    Malformed("zero-rate",
              settings(COSINE, '{ shape = "constant", steps = 50, start = 0, end = 0 }'),
              ("study.toml, run mixed, key schedule", "0 throughout")),
    Malformed("a-trillion-steps", settings("steps = 50", "steps = 1000000000000"),
              ("more than the 10000000 that any run has", "Count optimiser steps")),
    # Logged learning rates
    Malformed("log-and-schedule",
              settings("lr_log = true", f"lr_log = true\nschedule = [ {COSINE} ]"),
              ("study.toml, run logged, key lr_log", "Keep only one of the two")),
    Malformed("log-text", settings("lr_log = true", 'lr_log = "yes"'),
              ("study.toml, run logged, key lr_log", "no quotes")),
    Malformed("log-rows", rate_row("logged,3,1e-4\nlogged,0,1e-4\nmixed,1,1e-3"),
              ("lr.csv, line 5", "line 4 already holds", "lr.csv, line 6", "Count steps from 1",
               "lr.csv, line 7, run mixed", "Add lr_log = true")),
]
# fmt: on
