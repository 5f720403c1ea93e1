"""The page in a browser: what it shows, that it moves, that anybody can use it."""

import os
from pathlib import Path

import numpy as np
import pytest
from planned import DRAWS, SEED
from scripts import AXE, in_browser, needs_axe, needs_browser
from synthetic import lab, lab_posterior, prior_as_posterior

from bayes_cpt import bands, read_plan
from bayes_cpt.decisions.objective import read_objective
from bayes_cpt.planner.page import Planner
from bayes_cpt.report.numbers import decimals

# What is moved, and what is seen afterwards: as a person does it, by the controls alone.
VISIT = """
const seen = () => ({
  table: [...byId("table").rows].map((row) => [...row.cells].map((cell) => cell.textContent)),
  numbers: [...byId("numbers").children].map((item) => item.children[1].textContent),
  summary: byId("summary").textContent,
  plan: byId("plan").textContent,
  link: decodeURIComponent(byId("download").href.split(",").slice(1).join(",")),
  median: byId("chart-0").querySelector(".median").getAttribute("d"),
  rates: byId("chart-rate").querySelectorAll("path").length,
  label: byId("chart-front").querySelector("svg").getAttribute("aria-label"),
});
const set = (name, value) => {
  byId(name).value = value;
  byId(name).dispatchEvent(new Event("input", { bubbles: true }));
};
await pause(1000);
const start = seen();
set("base", 2);
set("replay", 0.5);
set("warmup", 0.05);
set("decay", 0.3);
while (state.frame) await pause(5);
const during = seen();
await pause(1500);
const after = seen();
set("kind", "expected");
await pause(1500);
const expected = seen();
byId("hold").click();
byId("best").click();
await pause(1500);
const best = seen();
byId("reset").click();
await pause(1500);
const again = seen();
const named = [...document.querySelectorAll("input, select")].map((own) => [
  own.id, own.labels.length, own.tabIndex, own.labels[0]?.textContent.trim().length ?? 0,
]);
const live = byId("summary").getAttribute("aria-live");
const widths = [document.documentElement.scrollWidth, innerWidth];
return { start, during, after, expected, best, again, named, live, widths };
"""


@needs_browser
def test_a_visit(planner: Planner, tmp_path: Path) -> None:
    found = in_browser(planner.html(), VISIT, tmp_path, "--window-size=1280,900")
    start, during, after = found["start"], found["during"], found["after"]
    # Bands and numbers move at once; what is read aloud waits for the end of the move.
    assert during["median"] != start["median"]
    assert during["numbers"] != start["numbers"]
    assert during["summary"] == start["summary"]
    assert after["summary"] != start["summary"]
    assert "annealed_0pct at replay 0.5" in after["summary"]
    assert after["summary"] in after["label"]
    assert found["expected"]["table"] != after["table"]
    assert found["again"]["plan"] == start["plan"]
    assert (start["rates"], found["best"]["rates"]) == (1, 2)
    assert found["best"]["summary"].startswith("The best for this balance")
    assert found["live"] == "polite"
    for name, labels, order, length in found["named"]:
        assert (labels, order) == (1, 0), name
        assert length > 0
    assert found["widths"][0] <= found["widths"][1]
    plan = tmp_path / "plan.toml"
    for stop, kind in (("start", "new_run"), ("after", "new_run"), ("best", "expected")):
        assert found[stop]["link"] == found[stop]["plan"]
        plan.write_text(found[stop]["plan"])
        table = bands(lab_posterior(), plan, kind, draws=DRAWS, seed=SEED, cores=1)  # type: ignore[arg-type]
        last = table.groupby("domain", sort=False).tail(1)
        for cells, row in zip(found[stop]["table"], last.to_dict("records"), strict=True):
            assert cells[0] == row["domain"]
            shown = [float(cells[1]), *map(float, cells[2].split(" to ")), float(cells[3])]
            wanted = [row[name] for name in ("median", "lower", "upper", "sd")]
            rounding = 0.5001 * 10.0 ** -decimals(row["sd"])
            np.testing.assert_allclose(shown, wanted, rtol=0, atol=rounding)
    assert read_plan(plan, lab()).run("planned").schedule.steps == 3000


@needs_browser
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_window(planner: Planner, width: int, tmp_path: Path) -> None:
    script = "await pause(500); return [document.documentElement.scrollWidth, innerWidth];"
    # A browser without a window is not narrower than 500: the page stands in a frame that is.
    frame = (
        f'const frame = document.createElement("iframe"); frame.style.width = "{width}px";'
        "frame.srcdoc = page; document.body.replaceChildren(frame);"
        "await new Promise((go) => { frame.onload = go; }); await pause(500);"
        "return [frame.contentDocument.documentElement.scrollWidth, frame.contentWindow.innerWidth];"
    )
    page = planner.html()
    if width < 500:
        text = page.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
        text = text.replace("</script>", "<\\/script>")
        script, page = f"const page = `{text}`; {frame}", "<!DOCTYPE html><body></body>"
    wide, window = in_browser(page, script, tmp_path, f"--window-size={max(width, 500)},900")
    assert window == width
    assert wide <= window


@needs_browser
@needs_axe
def test_axe_finds_nothing_serious(planner: Planner, tmp_path: Path) -> None:
    axe = Path(str(AXE)).read_text(encoding="utf-8").replace("</script>", "<\\/script>")
    page = planner.html().replace("</body>", f"<script>{axe}</script></body>")
    script = (
        "await pause(1000); const found = await axe.run();"
        "return found.violations.map((own) => [own.id, own.impact]);"
    )
    for options in ((), ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")):
        found = in_browser(page, script, tmp_path, "--window-size=1280,900", *options)
        assert [own for own in found if own[1] in ("serious", "critical")] == []


@needs_browser
@pytest.mark.slow
@pytest.mark.skipif(os.cpu_count() == 1, reason="the browser draws on a core of its own")
def test_a_frame_takes_less_than_a_sixtieth_of_a_second(tmp_path: Path) -> None:
    """200 draws at 200 points of the longest run: the fastest of many frames, for other work slows them."""
    posterior = prior_as_posterior(lab(), draws=50)
    page = Planner.of(posterior, read_objective("balanced"), draws=200, candidates=64)
    script = """
      byId("steps").value = planner.lengths.length - 1;
      const times = [];
      for (let n = 0; n < 80; n++) {
        byId("peak").value = n;
        const before = performance.now();
        update();
        document.body.getBoundingClientRect();
        times.push(performance.now() - before);
      }
      const { run } = state.found;
      return [Math.min(...times), run.grid.length, run.rates.length, planner.law.draws];
    """
    html = page.html()
    found = in_browser(html, script, tmp_path, "--window-size=1280,900", virtual=False)
    fastest, points, steps, draws = found
    assert (points, steps, draws) == (200, 12_000, 200)
    assert 0 < fastest < 1000 / 60
