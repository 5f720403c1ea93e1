"""Valid studies, plans and models, and what may become of them in a user's hands."""

import copy
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from malformed import FILES

from bayes_cpt.toml_files import toml_key, toml_value

MODEL = """
extends = "cpt-replay"
name = "mine"
[law]
base_offset = true
replay_factor = { general = "exponential", target = "saturating" }
[residuals]
skip_pretraining = 0.2
[priors.replay_curvature]
reason = "r"
every = { distribution = "normal", interval = [-2.0, 4.0], mass = 0.8 }
[priors.memory]
reason = "r"
every = { distribution = "lognormal", median = 300.0, sigma = 1.2, lower = 10.0, upper = 10000.0 }
[priors.offset_kept]
reason = "r"
general = { distribution = "normal", mean = 0.7, sd = 0.3 }
target = { distribution = "normal", mean = 0.2, sd = 0.3 }
"""
OBJECTIVE = """
preset = "balanced"
measure = "change"
reference = "own"
cost_per_1000_steps = 0.001
[weights]
general = 0.3
code = 0.7
[mixtures.code]
general = -0.1
target = 1.1
[[constraints]]
domain = "general"
rise = 0.02
probability = 0.1
[[constraints]]
domain = "code"
limit = 3.1
probability = 0.5
kind = "expected"
"""
SPACE = """
bases = ["stable_12k"]
replay = { low = 0.0, high = 0.8 }
relative_peak = { low = 0.1, high = 1.0, scale = "log" }
warmup_share = 0.02
decay_shape = ["cosine", "linear", "exponential"]
decay_share = [0.5, 1.0]
relative_final = 0.1
steps = [3000, 12000]
tokens_per_step = 1e5
"""
PLAN = Path("data/cpt-lab/plan-example.toml").read_text(encoding="utf-8")
COSTS = PLAN.replace("[runs.long_r25]", "[runs.long_r25]\ncost = 3000")
WHOLE_MODEL = Path("models/cpt-replay.toml").read_text(encoding="utf-8")

# Values that somebody, or a program, may leave where a number, text or table belongs.
VALUES: list[Any] = [
    0, -1, 1, 2, 50, 2**31, 2**63, 10**12, 10**30, 10**400, 0.0, -0.5, 0.5, 1.5, 1e-320, 1e308,
    math.nan, math.inf, -math.inf, True, False, "", " ", "nan", "half", "trunk", "../../x", "a" * 3000,
    "\u202e\u0000x", "𝔘ñ\ud7ff", "[red]x[/red]", "%s{}\\", [], [1], [[]], [None], {}, {"": 1},
    {"shape": "constant"}, {"distribution": "normal"},
]  # fmt: skip
CELLS = [
    "", " ", "0", "-1", "1.5", "1e400", "-inf", "nan", "NaN", "9" * 400, "99999999999999999999", "1_000",
    "0x10", "١٢", "true", "mixed", "trunk", "code", "\x00", "\u202e", '"', '""', "a,b", "\n", "=1+1", "5 ",
    "1e-320", "1e308", "2.0", "10000001", "9007199254740993",
]  # fmt: skip
JUNK = [
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b'"""', b"[[", b"]", b"=", b"\xed\xa0\x80", b"\t\n",
]  # fmt: skip


def _nodes(table: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the path of every key and item of a nested table."""
    items = table.items() if isinstance(table, dict) else enumerate(table)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from _nodes(value, (*path, key))


@st.composite
def tables(draw: st.DrawFn, text: str) -> str:
    """Draw a TOML file with values retyped, removed, repeated, renamed or nested."""
    table = copy.deepcopy(tomllib.loads(text))
    for _ in range(draw(st.integers(1, 3))):
        paths = list(_nodes(table))
        if not paths:
            break
        *above, last = draw(st.sampled_from(paths))
        parent: Any = table
        for key in above:
            parent = parent[key]
        way = draw(st.sampled_from(["value", "value", "delete", "rename", "copy", "nest"]))
        if way == "value":
            parent[last] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        elif way == "delete":
            del parent[last]
        elif way == "nest":
            for _ in range(draw(st.sampled_from([1, 3, 60]))):
                parent[last] = draw(st.sampled_from([list, dict]))([("x", parent[last])])
        elif isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        else:
            names = ["mixed", "", "schedule", "x.y", "Ω", f"{last}s", "general"]
            name = draw(st.sampled_from(names))
            parent[name] = copy.deepcopy(parent[last])
            if way == "rename" and name != last:
                del parent[last]
    # What TOML cannot say is left as it comes.
    return "\n".join(f"{toml_key(str(key))} = {toml_value(own)}" for key, own in table.items())


@st.composite
def grids(draw: st.DrawFn, text: str) -> str:
    """Draw a CSV file with cells changed, and rows and columns removed, repeated or moved."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.integers(0, len(rows) - 1))
        way = draw(st.sampled_from(["cell", "cell", "delete", "repeat", "swap", "column", "short"]))
        if way == "cell" and rows[row]:
            rows[row][draw(st.integers(0, len(rows[row]) - 1))] = draw(st.sampled_from(CELLS))
        elif way == "delete" and len(rows) > 1:
            del rows[row]
        elif way == "repeat":
            rows.insert(row, list(rows[row]))
        elif way == "swap":
            other = draw(st.integers(0, len(rows) - 1))
            rows[row], rows[other] = rows[other], rows[row]
        elif way == "column":
            place = draw(st.integers(0, 3))
            for one in rows:
                del one[place : place + 1]
        elif rows[row]:
            rows[row].pop()
    return "\n".join(",".join(row) for row in rows)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a file cut off, with bytes changed or put in, with lines moved, or in another encoding."""
    ways = ["cut", "byte", "junk", "lines", "utf-16", "latin-1", "empty", "twice"]
    way = draw(st.sampled_from(ways))
    place = draw(st.integers(0, max(len(content) - 1, 0)))
    if way == "cut":
        return content[:place]
    if way == "byte":
        return content[:place] + bytes([draw(st.integers(0, 255))]) + content[place + 1 :]
    if way == "junk":
        return content[:place] + draw(st.sampled_from(JUNK)) + content[place:]
    if way == "lines":
        lines = content.splitlines(keepends=True)
        return b"".join(draw(st.permutations(lines))) if len(lines) < 40 else content[::-1]
    if way == "empty":
        return draw(st.sampled_from([b"", b"\n", b" ", b"\x00", b"#"]))
    if way == "twice":
        return content + content
    return content.decode("utf-8").encode(way, errors="replace")


def toml_files(text: str) -> st.SearchStrategy[bytes]:
    """Draw what may become of a TOML file."""
    nested = st.sampled_from(
        ["a = " + "[" * 5000 + "]" * 5000, "a." * 3000 + "b = 1", "a = 1" + "0" * 5000]
    )
    return st.one_of(
        tables(text).map(_encoded),
        damaged(text.encode()),
        tables(text).map(_encoded).flatmap(damaged),
        nested.map(str.encode),
    )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")


def csv_files(text: str) -> st.SearchStrategy[bytes]:
    """Draw what may become of a CSV file."""
    return st.one_of(grids(text).map(_encoded), damaged(text.encode()))


@st.composite
def study_files(draw: st.DrawFn) -> dict[str, bytes]:
    """Draw the files of a study, one or two of them not as they should be."""
    files = {name: text.encode() for name, text in FILES.items()}
    names = st.sampled_from(["study.toml", "study.toml", "losses.csv", "losses.csv", "lr.csv"])
    for name in draw(st.lists(names, min_size=1, max_size=2, unique=True)):
        made = toml_files if name == "study.toml" else csv_files
        files[name] = draw(made(FILES[name]))
    return files


RATES = ["1e-11", "1e-9", "1e-6", "2e-3", "2e-3", "0.1"]
LENGTHS = ["1", "2", "7", "50", "100000"]
LOSSES_DRAWN = ["1e-11", "0.5", "3.4999", "3.5", "12.4", "700", "9e6"]
EXTREME = """\
[study]
name = "extreme"
general = "prose"
target = "code"
[bases.half]
steps = {pt}
run = "trunk"
schedule = [ {{ shape = "{shape}", steps = {pt}, start = {rate}, end = {rate} }} ]
[runs.trunk]
phase = "pt"
schedule = [ {{ shape = "{shape}", steps = {pt}, start = {rate}, end = {rate} }} ]
"""
EXTREME_RUN = """\
[runs.run{i}]
phase = "cpt"
base = "half"
replay = {replay}
schedule = [ {{ shape = "{shape}", steps = {steps}, start = {start}, end = {end} }} ]
"""


@st.composite
def extreme_files(draw: st.DrawFn) -> dict[str, bytes]:
    """Draw a study that is in order, of runs that nobody would train: very short, slow, or far off."""
    pt, rate = draw(st.sampled_from(LENGTHS)), draw(st.sampled_from(RATES))
    text = EXTREME.format(pt=pt, rate=rate, shape=draw(st.sampled_from(["constant", "linear"])))
    rows = ["run,step,domain,loss"]

    def measure(run: str, last: int, first: int) -> None:
        for domain in ("prose", "code"):
            steps = sorted(draw(st.sets(st.integers(first, last), max_size=4)) | {last})
            losses = [draw(st.sampled_from(LOSSES_DRAWN)) for _ in steps]
            rows.extend(f"{run},{s},{domain},{v}" for s, v in zip(steps, losses, strict=True))

    measure("trunk", int(pt), 1)
    for i in range(draw(st.integers(0, 3))):
        steps = draw(st.sampled_from(LENGTHS))
        text += EXTREME_RUN.format(
            i=i,
            replay=draw(st.sampled_from(["0", "1", "0.5", "1e-300", "0.9999999999999999"])),
            shape=draw(st.sampled_from(["linear", "cosine", "one_minus_sqrt"])),
            steps=steps,
            start=draw(st.sampled_from(RATES)),
            end=draw(st.sampled_from(["0", "1e-320", *RATES])),
        )
        measure(f"run{i}", int(steps), draw(st.integers(0, 1)))
    return {"study.toml": text.encode(), "losses.csv": "\n".join(rows).encode()}
