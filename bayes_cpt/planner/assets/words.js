// Numbers and sentences of the page. Numbers have the digits that their uncertainty supports
// (bayes_cpt.report.numbers).

function decimals(spread) {
  if (!(spread > 0)) return 3;
  const place = Math.floor(Math.log10(spread));
  const places = -place + (spread / 10 ** place < 3 ? 1 : 0);
  return Math.min(Math.max(places, 0), 4);
}

function percent(probability) {
  if (probability > 0.99) return "over 99\u00a0%";
  if (probability < 0.01) return "under 1\u00a0%";
  return `${Math.round(100 * probability)}\u00a0%`;
}

function fixed(value, places) {
  return value.toFixed(places).replace("-", "−");
}

function signed(value, places) {
  return `${value < 0 ? "" : "+"}${fixed(value, places)}`;
}

function mass(interval) {
  return `${short(Number((100 * interval).toFixed(4)))}\u00a0%`;
}

/** The event that a constraint is about. */
function eventOf(planner, constraint) {
  const { domain, limit, rise } = constraint;
  if (rise === null) return `${domain} loss at most ${short(limit)}`;
  const reference = planner.reference === null ? "its base" : planner.bases[planner.reference].name;
  return `${domain} loss at most ${short(rise)} above ${reference}`;
}

/** The setting in a sentence. */
function runWords(planner, setting) {
  const base = planner.bases[setting.base].name;
  return `${steps(setting.steps)} steps from ${base} at replay ${short(setting.replay)}, ` +
    `peak learning rate ${short(setting.peak)}.`;
}

/** What the run comes to, in sentences. */
function outcomeWords(planner, setting, found) {
  const kind = setting.kind === "new_run" ? "a new run" : "the law's mean curve";
  const losses = planner.domains.map((domain, place) => {
    const { median, lower, upper, sd } = found.summaries[place];
    const [middle, low, high] = [median, lower, upper].map((value) => fixed(value, decimals(sd)));
    return `${domain} loss ends at ${middle} (${mass(planner.about.interval)} interval ${low} to ${high})`;
  });
  const kept = setting.constraints.map(
    (own, place) => `Probability of ${eventOf(planner, own)}: ${percent(1 - found.breaches[place])}.`,
  );
  const regret = `Expected regret ${found.regret.toFixed(3)} nats per token, against every decay, shape and ` +
    `last rate at this length, a wider search than decide's; the best setting has ${found.unavoidable.toFixed(3)}.`;
  return [runWords(planner, setting), `For ${kind}, ${losses.join("; ")}.`, ...kept, regret].join(" ");
}
