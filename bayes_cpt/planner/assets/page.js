// The page: controls -> setting -> outcome -> what is shown. One redraw per frame, however fast a control moves.

const planner = opened(JSON.parse(document.getElementById("planner-data").textContent));
const byId = (name) => document.getElementById(name);
const ROLES = ["general", "target"];
const SHARES = ["replay", "warmup", "decay", "final", "weight"];
// A live region that speaks at every move of a slider says nothing: it waits until the hand rests.
const REST = 600;

const memory = {};
const state = { setting: null, found: null, held: null, frame: 0, rest: 0 };
const charts = {
  bands: [new Chart(byId("chart-0")), new Chart(byId("chart-1"))],
  rate: new Chart(byId("chart-rate")),
  ends: new Chart(byId("chart-end")),
  front: new Chart(byId("chart-front")),
};

/** The setting that the controls say. */
function readSetting() {
  const setting = {
    base: Number(byId("base").value),
    steps: planner.lengths[byId("steps").value],
    peak: planner.peaks[byId("peak").value],
    shape: byId("shape").value,
    kind: byId("kind").value,
  };
  for (const name of SHARES) setting[name] = Number(byId(name).value);
  setting.constraints = planner.start.constraints.map((own, place) => {
    const input = byId(`limit-${place}`);
    const valid = input.value !== "" && Number.isFinite(Number(input.value));
    input.setAttribute("aria-invalid", String(!valid));
    const key = own.rise === null ? "limit" : "rise";
    return valid ? { ...own, [key]: Number(input.value) } : own;
  });
  return setting;
}

/** Put the controls where a setting is. */
function showSetting(setting) {
  for (const name of SHARES) byId(name).value = setting[name];
  for (const name of ["base", "shape"]) byId(name).value = setting[name];
  byId("steps").value = planner.lengths.indexOf(setting.steps);
  byId("peak").value = planner.peaks.indexOf(setting.peak);
}

function startSetting() {
  const { start } = planner;
  return { ...start, steps: planner.lengths[start.steps], peak: planner.peaks[start.peak] };
}

/** The words beside the sliders, and what a screen reader says of them. */
function showValues(setting) {
  const run = segmentsOf(setting, planner.bases[setting.base].initial);
  const warmup = run[0].shape === "linear" && run[0].end === setting.peak ? run[0].steps : 0;
  const last = run[run.length - 1];
  const decay = last.shape === setting.shape ? last.steps : 0;
  const whole = (share) => `${short(Number((100 * share).toFixed(1)))}\u00a0%`;
  const [general, target] = planner.domains;
  const words = {
    replay: `${whole(setting.replay)} ${general} data`,
    steps: steps(setting.steps),
    peak: short(setting.peak),
    warmup: warmup ? `${whole(setting.warmup)}, ${steps(warmup)} steps` : "none",
    decay: decay ? `last ${whole(decay / setting.steps)}, ${steps(decay)} steps` : "none",
    final: `${whole(setting.final)} of the peak`,
    weight: `${whole(setting.weight)} ${general}, ${whole(1 - setting.weight)} ${target}`,
  };
  if (setting.warmup && !warmup) words.warmup = "none: it is at its peak";
  for (const [name, text] of Object.entries(words)) {
    byId(`${name}-value`).textContent = text;
    byId(name).setAttribute("aria-valuetext", text);
  }
}

/** The large numbers on top. */
function showNumbers(setting, found) {
  const interval = mass(planner.about.interval);
  const items = planner.domains.map((domain, place) => {
    const { median, lower, upper, sd } = found.summaries[place];
    const places = decimals(sd);
    const change = signed(median - found.starts[place], places);
    return {
      look: ROLES[place],
      what: `Last ${domain} loss`,
      value: fixed(median, places),
      more: `${interval}: ${fixed(lower, places)} to ${fixed(upper, places)}; ${change} from the base`,
    };
  });
  setting.constraints.forEach((own, place) => {
    const kept = 1 - found.breaches[place];
    const wanted = 1 - own.probability;
    items.push({
      look: kept < wanted ? "broken" : "kept",
      what: `P(${eventOf(planner, own)})`,
      value: percent(kept),
      more: kept < wanted ? `${percent(wanted)} is wanted` : `at least ${percent(wanted)} is wanted: kept`,
    });
  });
  items.push({
    look: "regret",
    what: "Expected regret of the balance",
    value: found.regret.toFixed(3),
    more: `nats/token, against a wider search than decide's; the best setting has ${found.unavoidable.toFixed(3)}`,
  });
  const list = byId("numbers");
  while (list.children.length < items.length) {
    const item = document.createElement("li");
    for (const part of ["what", "value", "more"]) {
      const span = document.createElement("span");
      span.className = part;
      item.append(span);
    }
    list.append(item);
  }
  items.forEach((item, place) => {
    const element = list.children[place];
    element.className = item.look;
    [item.what, item.value, item.more].forEach((text, part) => {
      if (element.children[part].textContent !== text) element.children[part].textContent = text;
    });
  });
}

/** Table, plan and what is read aloud: they can wait for the end of a move. */
function showAtRest() {
  const { setting, found } = state;
  const rows = planner.domains.map((domain, place) => {
    const { median, lower, upper, sd } = found.summaries[place];
    const start = found.starts[place];
    const places = decimals(sd);
    const [middle, low, high, spread, base] = [median, lower, upper, sd, start].map((value) => fixed(value, places));
    return [domain, middle, `${low} to ${high}`, spread, base, signed(median - start, places)];
  });
  byId("table").replaceChildren(
    ...rows.map(([name, ...cells]) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = name;
      row.append(head, ...cells.map((cell) => Object.assign(document.createElement("td"), { textContent: cell })));
      return row;
    }),
  );
  const text = planText(planner, setting);
  byId("plan").textContent = text;
  byId("download").href = `data:application/toml;charset=utf-8,${encodeURIComponent(text)}`;
  const words = outcomeWords(planner, setting, found);
  byId("summary").textContent = words;
  charts.bands.forEach((chart, place) => chart.describe(`${planner.domains[place]} loss over the run. ${words}`));
  charts.rate.describe(`Learning rate over the run: ${runWords(planner, setting)}`);
  charts.ends.describe(`Distribution of the last losses. ${words}`);
  charts.front.describe(`This run beside the Pareto front of runs of ${steps(setting.steps)} steps. ${words}`);
}

/** The mean loss at which a constraint on one of the two losses breaks, null where there is none. */
function limitOf(setting, place) {
  const own = setting.constraints.find(({ share }) => share.every((part, i) => part === Number(i === place)));
  if (!own) return null;
  return own.rise === null ? own.limit : own.rise + mean(planner.bases[planner.reference ?? setting.base].loss[place]);
}

function draw() {
  const { setting, found, held } = state;
  const initial = planner.bases[setting.base].initial;
  charts.bands.forEach((chart, place) => {
    const other = held && { grid: held.grid, median: held.bands[place] };
    drawBands(chart, ROLES[place], found, place, limitOf(setting, place), other);
  });
  drawRate(charts.rate, found.run, initial, held);
  drawEnds(charts.ends, ROLES, planner.domains, found, setting.kind, held);
  drawFront(charts.front, planner.domains, found, held);
}

/** Compute and show what the controls say. */
function update() {
  state.frame = 0;
  state.setting = readSetting();
  state.found = outcome(planner, state.setting, memory);
  const { setting, found } = state;
  showValues(setting);
  showNumbers(setting, found);
  const note = byId("note");
  note.hidden = found.outside.length === 0;
  note.textContent = `Outside the fitted range, to be trusted less: ${found.outside.join("; ")}.`;
  draw();
  clearTimeout(state.rest);
  state.rest = setTimeout(showAtRest, REST);
}

function soon() {
  state.frame ||= requestAnimationFrame(update);
}

/** Captions that name the kind of band and its mass, and each line that is drawn. */
function showKeys() {
  const { draws } = planner.law;
  const outer = mass(planner.about.interval);
  const [kind, about] = byId("kind").value === "new_run"
    ? ["What a new run would show", "predictive"] : ["The law's mean curve alone", "credible"];
  const limited = planner.domains.some((_, place) => limitOf(planner.start, place) !== null);
  const held = (what) => (state.held ? ` Dashed: ${what}.` : "");
  byId("bands-key").textContent =
    `${kind}: median, central 50 % and ${outer} ${about} bands over ${draws} posterior draws, in nats per token. ` +
    `Dotted: the base's loss.${limited ? " Limit: what is allowed." : ""}${held("the run held for comparison")}`;
  byId("end-key").textContent = `${kind} at the last step: density, median, and the central ${outer} ${about} interval below.${held("the median of the held run")}`;
  byId("front-key").textContent =
    "Mean losses of the law at the last step. Line: the Pareto front of runs of as many steps. " +
    `Large dot: this run, with its central ${outer} ${about} intervals. Ring: the best for this balance.${held("to the held run")}`;
  byId("interval-head").textContent = `${outer} interval`;
  byId("draws").textContent = draws;
}

function listen() {
  byId("controls").addEventListener("input", () => {
    showKeys();
    soon();
  });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("reset").addEventListener("click", (event) => {
    event.preventDefault();
    begin();
  });
  byId("best").addEventListener("click", () => {
    const best = bestSetting(planner, state.setting);
    showSetting(best.setting);
    update();
    clearTimeout(state.rest); // What is said here stays.
    showAtRest();
    const all = state.setting.constraints.length > 1 ? "all constraints" : "the constraint";
    const kept = best.excess > 0 ? ` No setting keeps ${all}: this one comes nearest.` : "";
    byId("summary").textContent = `The best for this balance and length.${kept} ${byId("summary").textContent}`;
  });
  byId("hold").addEventListener("click", () => {
    const { found } = state;
    state.held = state.held === null && {
      grid: found.run.grid,
      rates: drawnRates(found.run, planner.bases[state.setting.base].initial),
      bands: found.bands.map((own) => own[2]),
      medians: found.summaries.map((own) => own.median),
      means: found.means,
    } || null;
    byId("hold").setAttribute("aria-pressed", String(state.held !== null));
    showKeys();
    draw();
  });
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(byId("plan").textContent);
    byId("copy").textContent = "Copied";
  });
  new ResizeObserver(() => {
    for (const chart of [...charts.bands, charts.rate, charts.ends, charts.front]) chart.measure();
    if (state.found) draw();
  }).observe(byId("results"));
}

/** Controls at the start. */
function begin() {
  for (const [name, values] of [["steps", planner.lengths], ["peak", planner.peaks]]) {
    Object.assign(byId(name), { min: 0, max: values.length - 1, step: 1 });
  }
  showSetting(startSetting());
  byId("kind").value = "new_run";
  planner.start.constraints.forEach((own, place) => {
    byId(`limit-${place}`).value = own.rise ?? own.limit;
  });
  showKeys();
  update();
  showAtRest();
}

listen();
begin();
