// Learning-rate schedules: as bayes_cpt.study.schedules has them, made of what the controls say.

const DECAYS = {
  cosine: (start, end, share) => end + (start - end) * 0.5 * (1 + Math.cos(Math.PI * share)),
  linear: (start, end, share) => start + (end - start) * share,
  one_minus_sqrt: (start, end, share) => start + (end - start) * Math.sqrt(share),
};

/** The segments of a run: a line from the base's learning rate to the peak, the peak, a decay. */
function segmentsOf(setting, initial) {
  const { peak, steps } = setting;
  // What starts at its peak needs no line there.
  const there = Math.abs(initial - peak) <= 1e-9 * peak;
  const warmup = there ? 0 : Math.min(rounded(setting.warmup * steps), steps - 1);
  const decay = rounded(setting.decay * (steps - warmup));
  const parts = [
    { shape: "linear", steps: warmup, start: initial, end: peak },
    { shape: "constant", steps: steps - warmup - decay, start: peak, end: peak },
    { shape: setting.shape, steps: decay, start: peak, end: Number((setting.final * peak).toPrecision(12)) },
  ];
  return parts.filter((part) => part.steps > 0);
}

/** Learning rate of every step. */
function ratesOf(segments) {
  const total = segments.reduce((sum, part) => sum + part.steps, 0);
  const rates = new Float64Array(total);
  let first = 0;
  for (const { shape, steps, start, end } of segments) {
    const at = shape === "constant" ? () => end : DECAYS[shape];
    for (let i = 1; i <= steps; i++) rates[first + i - 1] = at(start, end, i / steps);
    // Rounding must not keep a segment from meeting the next one exactly.
    rates[first + steps - 1] = end;
    first += steps;
  }
  return rates;
}

// Points of a curve.
const POINTS = 200;

/** About as many steps of a run, denser early, the last one always: bayes_cpt.forecast.plans.default_grid. */
function gridOf(steps) {
  const count = Math.min(POINTS, steps);
  const grid = [];
  for (let i = 1; i <= count; i++) {
    const share = i === count ? 1 : i * (1 / count);
    const step = Math.ceil(share * share * steps);
    if (step !== grid[grid.length - 1]) grid.push(step);
  }
  return Float64Array.from(grid);
}

/** The run as a plan that bayes-cpt predict reads; bases and validation sets are those of the fit. */
function planText(planner, setting) {
  const base = planner.bases[setting.base];
  const parts = segmentsOf(setting, base.initial).map(
    ({ shape, steps, start, end }) =>
      `  { shape = "${shape}", steps = ${steps}, start = ${start}, end = ${end} },`,
  );
  return [
    `# A run planned from ${planner.about.fit}, study ${planner.about.study}:`,
    `#     bayes-cpt predict ${planner.about.fit} --plan plan.toml -o forecast.csv`,
    "[runs.planned]",
    'phase = "cpt"',
    `base = ${base.toml}`,
    `replay = ${setting.replay}`,
    ...(planner.about.targets === null ? [] : [`targets = ${planner.about.targets}`]),
    ...(base.model_size === null ? [] : [`model_size = ${base.model_size}`]),
    "schedule = [",
    ...parts,
    "]",
    "",
  ].join("\n");
}
