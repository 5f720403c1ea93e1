// Charts in SVG, drawn anew at every move: elements are kept by name and changed only where they differ.

// On the right there is room for the word limit.
const MARGIN = { left: 52, right: 36, top: 10, bottom: 34 };

/** An SVG in an element, as wide as that is. Draw inside `frame`, element by element with `put`. */
class Chart {
  constructor(container) {
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("role", "img");
    container.append(this.svg);
    this.container = container;
    this.kept = new Map();
    this.measure();
  }

  measure() {
    this.width = this.container.clientWidth;
    this.height = this.container.clientHeight;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
  }

  /** Draw all of it: what is not put again is taken away. */
  frame(draw) {
    this.used = new Set();
    draw(this);
    for (const [name, element] of this.kept) {
      if (!this.used.has(name)) {
        element.node.remove();
        this.kept.delete(name);
      }
    }
  }

  put(name, tag, attributes, text) {
    this.used.add(name);
    let element = this.kept.get(name);
    if (!element) {
      element = { node: document.createElementNS("http://www.w3.org/2000/svg", tag), now: {} };
      this.kept.set(name, element);
      this.svg.append(element.node);
    }
    for (const [key, value] of Object.entries(attributes)) {
      if (element.now[key] !== value) element.node.setAttribute(key, (element.now[key] = value));
    }
    if (text !== undefined && element.text !== text) element.node.textContent = element.text = text;
  }

  /** What the picture shows, for those who do not see it. */
  describe(words) {
    this.svg.setAttribute("aria-label", words);
  }
}

/** Round marks that span two numbers, about so many. */
function ticksOf(low, high, count) {
  const rough = (high - low || Math.abs(high) || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((own) => own * power).find((own) => own >= rough * 0.999);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  const places = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9) + (String(step / power).length > 1 ? 1 : 0));
  const marks = [];
  for (let i = first; i <= Math.max(last, first + 1); i++) marks.push(i * step);
  return { marks, places: step >= 1 ? 0 : places, low: marks[0], high: marks[marks.length - 1] };
}

function scaleOf(low, high, from, to) {
  return (value) => from + ((value - low) / (high - low)) * (to - from);
}

const px = (value) => value.toFixed(1);

/** A path through points. */
function lineOf(xs, ys, x, y) {
  let path = "";
  for (let i = 0; i < xs.length; i++) path += `${i ? "L" : "M"}${px(x(xs[i]))} ${px(y(ys[i]))}`;
  return path;
}

/** A path around what lies between two curves. */
function areaOf(xs, low, high, x, y) {
  let path = lineOf(xs, high, x, y);
  for (let i = xs.length - 1; i >= 0; i--) path += `L${px(x(xs[i]))} ${px(y(low[i]))}`;
  return `${path}Z`;
}

/** Axes of a box, their grid and labels; returns both scales. `name` keeps several boxes of a chart apart. */
function axesOf(chart, box, across, up, labels, name = "") {
  const x = scaleOf(across.low, across.high, box.left, box.right);
  const y = scaleOf(up.low, up.high, box.bottom, box.top);
  if (labels.y !== null) {
    up.marks.forEach((mark, i) => {
      chart.put(`${name}gy${i}`, "line", { class: "grid", x1: box.left, x2: box.right, y1: px(y(mark)), y2: px(y(mark)) });
      chart.put(`${name}ty${i}`, "text", { x: box.left - 6, y: px(y(mark) + 4), "text-anchor": "end" }, (labels.show ?? fixed)(mark, up.places));
    });
  }
  chart.put(`${name}ax`, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  across.marks.forEach((mark, i) => {
    if (mark < across.low - 1e-12 || mark > across.high + 1e-12) return;
    const at = x(mark);
    const anchor = at > box.right - 12 ? "end" : "middle";
    chart.put(`${name}tx${i}`, "text", { x: px(at), y: box.bottom + 15, "text-anchor": anchor }, labels.x(mark, across.places));
  });
  chart.put(`${name}lx`, "text", { x: box.right, y: box.bottom + 30, "text-anchor": "end" }, labels.across);
  return { x, y };
}

function boxOf(chart) {
  return {
    left: MARGIN.left,
    right: chart.width - MARGIN.right,
    top: MARGIN.top,
    bottom: chart.height - MARGIN.bottom,
  };
}

/** Steps along the bottom: the last mark is at most the last step. */
function stepTicks(last, width) {
  const found = ticksOf(0, last, Math.max(2, Math.round(width / 90)));
  return { ...found, marks: found.marks.filter((mark) => mark <= last), low: 0, high: last };
}

/** About the height of a label, and half the width of the word base, pixels. */
const LABEL = 14;

/** Bands of a loss over the run, its base's loss, what it may be, and a run that is held for comparison. */
function drawBands(chart, role, found, place, limit, held) {
  const { run, bands, starts } = found;
  const [outerLow, innerLow, median, innerHigh, outerHigh] = bands[place];
  const lines = [["base", starts[place]], ["limit", limit]].filter(([, value]) => value !== null);
  lines.sort((one, two) => two[1] - one[1]);
  const all = [...lines.map(([, value]) => value), ...(held ? held.median : [])];
  chart.frame(() => {
    const box = boxOf(chart);
    const last = Math.max(run.rates.length, held ? held.grid[held.grid.length - 1] : 0);
    const across = stepTicks(last, box.right - box.left);
    const up = ticksOf(Math.min(...outerLow, ...all), Math.max(...outerHigh, ...all), 5);
    const { x, y } = axesOf(chart, box, across, up, { x: (mark) => steps(mark), across: "steps (linear)" });
    const look = (name) => `${name} ${role}-ink`;
    chart.put("wide", "path", { class: look("wide"), d: areaOf(run.grid, outerLow, outerHigh, x, y) });
    chart.put("inner", "path", { class: look("inner"), d: areaOf(run.grid, innerLow, innerHigh, x, y) });
    chart.put("median", "path", { class: look("median"), d: lineOf(run.grid, median, x, y) });
    // A label stands beside the box, where no curve is, and clear of the one above it.
    let free = 0;
    for (const [name, value] of lines) {
      const at = px(y(value));
      const beside = Math.max(y(value) + 4, free);
      chart.put(name, "line", { class: name, x1: box.left, x2: box.right, y1: at, y2: at });
      chart.put(`${name}-label`, "text", { class: `${name}-label`, x: box.right + 4, y: px(beside) }, name);
      free = beside + LABEL;
    }
    if (held) chart.put("held", "path", { class: "held", d: lineOf(held.grid, held.median, x, y) });
  });
}

/** Learning rates at the start, which is the base's own, and at the steps that are drawn. */
function drawnRates(run, initial) {
  return [initial, ...Array.from(run.grid, (step) => run.rates[step - 1])];
}

/** The learning rate over the run, and over one that is held. */
function drawRate(chart, run, initial, held) {
  chart.frame(() => {
    const box = boxOf(chart);
    const last = Math.max(run.rates.length, held ? held.grid[held.grid.length - 1] : 0);
    const across = stepTicks(last, box.right - box.left);
    const up = ticksOf(0, Math.max(run.peak, initial, ...(held?.rates ?? [])), 2);
    const labels = { x: (mark) => steps(mark), across: "steps (linear)", show: short };
    const { x, y } = axesOf(chart, box, across, up, labels);
    const line = (grid, rates) => lineOf([0, ...grid], rates, x, y);
    chart.put("rate", "path", { class: "rate", d: line(run.grid, drawnRates(run, initial)) });
    if (held) chart.put("held", "path", { class: "held", d: line(held.grid, held.rates) });
  });
}

/** What the last losses may be: a density each, with the central interval, the median and the base's loss. */
function drawEnds(chart, roles, domains, found, kind, held) {
  chart.frame(() => {
    const tall = chart.height / domains.length;
    domains.forEach((domain, place) => {
      const own = found.summaries[place];
      const base = found.starts[place];
      const reach = 3.3 * own.sd;
      const across = ticksOf(own.median - reach, own.median + reach, Math.max(3, chart.width / 110));
      const box = { left: 20, right: chart.width - 20, top: tall * place + 20, bottom: tall * (place + 1) - 34 };
      const places = Array.from({ length: 121 }, (_, i) => across.low + (i / 120) * (across.high - across.low));
      const heights = densityOf(found.ends[place], own, places, kind);
      const up = { low: 0, high: Math.max(...heights), marks: [], places: 0 };
      const labels = { x: fixed, across: `last ${domain} loss, nats/token`, y: null };
      const name = `${roles[place]}-`;
      const { x, y } = axesOf(chart, box, across, up, labels, name);
      const ink = `${name}ink`;
      chart.put(`${name}area`, "path", { class: `filled ${ink}`, d: areaOf(places, places.map(() => 0), heights, x, y) });
      chart.put(`${name}line`, "path", { class: `outline ${ink}`, d: lineOf(places, heights, x, y) });
      const below = box.bottom - 1.5;
      chart.put(`${name}interval`, "line", { class: `interval ${ink}`, x1: px(x(own.lower)), x2: px(x(own.upper)), y1: below, y2: below });
      const marks = [["median", own.median, `outline ${ink}`], ["base", base, "base"], ["held", held?.medians[place], "held"]];
      for (const [label, value, look] of marks) {
        if (value === undefined || value < across.low || value > across.high) continue;
        chart.put(`${name}${label}`, "line", { class: look, x1: px(x(value)), x2: px(x(value)), y1: box.top, y2: box.bottom });
        // Over the density's top, which it would hide, and inside the chart.
        const at = Math.min(Math.max(x(value), box.left + LABEL), box.right - LABEL);
        if (label === "base") chart.put(`${name}text`, "text", { x: px(at), y: box.top - 6, "text-anchor": "middle" }, "base");
      }
    });
  });
}

/** Mean last losses against each other: the Pareto front, this run with its intervals, the best of the front. */
function drawFront(chart, domains, found, held) {
  const { front, means, summaries, best } = found;
  chart.frame(() => {
    const box = { ...boxOf(chart), top: MARGIN.top + 1.5 * LABEL };
    const others = held ? held.means : means;
    // The far end of the front is of no use, unless this run, the held one or the best lies there.
    const far = Math.max(front.general[0] + 0.75, means[0], others[0], front.general[best]);
    const near = front.general.map((_, i) => i).filter((i) => front.general[i] <= far);
    const spread = (values, place) => [Math.min(...values, means[place], others[place]), Math.max(...values, means[place], others[place])];
    const across = ticksOf(...spread(near.map((i) => front.general[i]), 0), Math.max(3, chart.width / 110));
    const up = ticksOf(...spread(near.map((i) => front.target[i]), 1), 5);
    const labels = { x: fixed, across: `mean last ${domains[0]} loss, nats/token` };
    const { x, y } = axesOf(chart, box, across, up, labels);
    chart.put("name", "text", { x: 0, y: MARGIN.top }, `mean last ${domains[1]} loss, nats/token`);
    const general = near.map((i) => front.general[i]);
    const target = near.map((i) => front.target[i]);
    chart.put("front", "path", { class: "front", d: lineOf(general, target, x, y) });
    general.forEach((value, i) => {
      chart.put(`point${i}`, "circle", { class: "front-point", cx: px(x(value)), cy: px(y(target[i])), r: 2 });
    });
    const clip = (value, axis) => Math.min(Math.max(value, axis.low), axis.high);
    const [wide, tall] = summaries;
    const here = { cx: px(x(means[0])), cy: px(y(means[1])) };
    chart.put("across", "line", { class: "cross", x1: px(x(clip(wide.lower, across))), x2: px(x(clip(wide.upper, across))), y1: here.cy, y2: here.cy });
    chart.put("up", "line", { class: "cross", x1: here.cx, x2: here.cx, y1: px(y(clip(tall.lower, up))), y2: px(y(clip(tall.upper, up))) });
    const ring = { cx: px(x(front.general[best])), cy: px(y(front.target[best])) };
    chart.put("best", "circle", { class: "held-point", ...ring, r: 10 });
    if (held) chart.put("held", "path", { class: "held", d: `M${px(x(held.means[0]))} ${px(y(held.means[1]))}L${here.cx} ${here.cy}` });
    chart.put("here", "circle", { class: "here", ...here, r: 7 });
  });
}
