// What a setting is worth: the balance of the two losses, regret, constraints, and where it leaves what was
// studied.

/** The balance of two losses; `weight` is that of the general one. */
function balance(weight, general, target) {
  return weight * general + (1 - weight) * target;
}

/**
 * Expected regret of a run's final losses in nats: how far its balance lies above the lowest that the draw
 * allows to any run of as many steps. What the law misses is in the lowest; of the run itself its mean, 0, is.
 */
function expectedRegret(alternatives, weight, general, target) {
  const { counts, hulls } = alternatives;
  let sum = 0;
  for (let draw = 0, k = 0; draw < counts.length; draw++) {
    const own = balance(weight, general[draw], target[draw]);
    let lowest = Infinity;
    for (const last = k + 2 * counts[draw]; k < last; k += 2) {
      lowest = Math.min(lowest, balance(weight, hulls[k], hulls[k + 1]));
    }
    sum += own - lowest;
  }
  return Math.max(sum / counts.length, 0);
}

/** Variance of a weighted sum of errors that correlate (bayes_cpt.model.discrepancy.variance_of_sum). */
function varianceOfSum(sizes, weights, correlation) {
  let sum = 0;
  let squares = 0;
  sizes.forEach((size, place) => {
    sum += weights[place] * size;
    squares += (weights[place] * size) ** 2;
  });
  return correlation * sum ** 2 + (1 - correlation) * squares;
}

/**
 * Probability that a run breaks a constraint: that a loss, or a mixture of both, exceeds a threshold. What the
 * law misses counts in any case, but for a single run's own share of it; the fluctuation in a new run alone.
 */
function breach(planner, setting, constraint, ends) {
  const { share, kind } = constraint;
  const { correlation } = planner.law;
  const start = constraint.rise === null ? null : planner.bases[planner.reference ?? setting.base].loss;
  let sum = 0;
  for (let draw = 0; draw < planner.law.draws; draw++) {
    let margin = 0;
    ends.forEach((end, domain) => {
      margin += share[domain] * (end.mean[draw] - (start ? start[domain][draw] : 0));
    });
    const moving = ends.map((end) => end.fluctuation[draw]);
    const errors = ends.map((end) => {
      const others = end.fluctuation[draw] ** 2 + (kind === "new_run" ? 0 : end.own[draw] ** 2);
      return Math.sqrt(Math.max(end.sd[draw] ** 2 - others, 0));
    });
    let variance = varianceOfSum(errors, share, correlation.misfit);
    if (kind === "new_run") variance += varianceOfSum(moving, share, correlation.fluctuation);
    const room = (constraint.rise ?? constraint.limit) - margin;
    sum += variance > 0 ? normalBelow(room / Math.sqrt(variance)) : Number(room > 0);
  }
  return 1 - sum / planner.law.draws;
}

/** In words, where a run leaves what the study's runs cover: bayes_cpt.study.ranges.outside_range. */
function outside(planner, setting, peak) {
  const { studied } = planner;
  const notes = [];
  if (setting.steps > studied.longest * studied.slack) {
    const times = (setting.steps / studied.longest).toFixed(1);
    notes.push(`${steps(setting.steps)} steps, ${times}x the longest run`);
  }
  const spans = [["peak LR", peak, studied.peak], ["replay", setting.replay, studied.replay]];
  for (const [label, value, [low, high]] of spans) {
    if (value < low / studied.slack || value > high * studied.slack) {
      notes.push(`${label} ${short(value)}, studied ${short(low)} to ${short(high)}`);
    }
  }
  return [...notes, ...studied.bases[setting.base]];
}

function steps(count) {
  return count.toLocaleString("en-US");
}

/** A number in at most six digits, as Python's %g writes it. */
function short(value) {
  const digits = Number(value.toPrecision(6));
  if (digits === 0 || (Math.abs(digits) >= 1e-4 && Math.abs(digits) < 1e6)) return String(digits);
  const [figures, power] = digits.toExponential().split("e");
  const sign = power[0];
  return `${figures}e${sign}${power.slice(1).padStart(2, "0")}`;
}

/** The final losses of a run alone, in every draw. */
function finalLosses(planner, setting) {
  const run = pointsOf(planner, setting, Float64Array.of(setting.steps));
  return lossesOf(planner, setting, run).map(endOf);
}

/** What a setting is worth: its balance, and by how much it breaks the constraints. */
function judged(planner, setting) {
  const ends = finalLosses(planner, setting);
  const excess = setting.constraints.map((own) => breach(planner, setting, own, ends) - own.probability);
  return {
    setting,
    excess: Math.max(0, ...excess),
    value: balance(setting.weight, mean(ends[0].mean), mean(ends[1].mean)),
  };
}

function isBetter(one, two) {
  return one.excess < two.excess || (one.excess === two.excess && one.value < two.value);
}

/** The nearest setting that the controls can show. */
function snapped(planner, setting) {
  const found = { ...setting };
  for (const [name, { min, step }] of Object.entries(planner.ranges)) {
    found[name] = Number((min + Math.round((setting[name] - min) / step) * step).toFixed(6));
  }
  const apart = (peak) => Math.abs(Math.log(peak / setting.peak));
  found.peak = planner.peaks.reduce((one, two) => (apart(two) < apart(one) ? two : one));
  return found;
}

/** Settings that differ from one in a single control, by so many steps of it, within what is searched. */
function neighbours(planner, setting, count) {
  const moved = [];
  for (const sign of [-1, 1]) {
    for (const [name, { step, lowest, highest }] of Object.entries(planner.ranges)) {
      const value = Math.min(Math.max(setting[name] + sign * count * step, lowest), highest);
      if (value !== setting[name]) moved.push({ ...setting, [name]: value });
    }
    const peak = planner.peaks[planner.peaks.indexOf(setting.peak) + sign * count];
    if (peak !== undefined) moved.push({ ...setting, peak });
  }
  return moved;
}

/**
 * The run with the lowest expected balance among those that keep the constraints; where none does, the one
 * that comes nearest to it. From the best of the Pareto front, control by control, while that gains.
 */
function bestSetting(planner, setting) {
  const { front } = planner.alternatives[planner.lengths.indexOf(setting.steps)];
  const judge = (own) => judged(planner, snapped(planner, own));
  let best = front.general
    .map((_, place) => Object.fromEntries(
      ["base", "replay", "peak", "warmup", "decay", "final", "shape"].map((key) => [key, front[key][place]]),
    ))
    .map((own) => judge({ ...setting, ...own }))
    .reduce((one, two) => (isBetter(two, one) ? two : one));
  for (let count = 8; count >= 1;) {
    const near = neighbours(planner, best.setting, count).map(judge);
    const gained = near.reduce((one, two) => (isBetter(two, one) ? two : one), best);
    if (gained === best) count /= 2;
    best = gained;
  }
  return best;
}

/** The best run of the front on average, for a balance. */
function bestMean(front, weight) {
  const values = front.general.map((general, place) => balance(weight, general, front.target[place]));
  const lowest = Math.min(...values);
  return { value: lowest, place: values.indexOf(lowest) };
}

/**
 * All that the page shows of a setting. `memory` keeps what did not change since the last one: a move of the
 * balance needs no law, a move of the replay ratio no areas.
 */
function outcome(planner, setting, memory) {
  const { law, about } = planner;
  const schedule = ["base", "peak", "warmup", "decay", "final", "shape", "steps"];
  const key = schedule.map((name) => setting[name]).join();
  if (memory.key !== key) {
    Object.assign(memory, { key, run: pointsOf(planner, setting, gridOf(setting.steps)), replay: null });
  }
  if (memory.replay !== setting.replay) {
    memory.losses = lossesOf(planner, setting, memory.run);
    Object.assign(memory, { replay: setting.replay, ends: memory.losses.map(endOf), kind: null });
  }
  if (memory.kind !== setting.kind) {
    const outer = about.interval / 2;
    const fractions = [0.5 - outer, 0.25, 0.5, 0.75, 0.5 + outer];
    Object.assign(memory, {
      kind: setting.kind,
      bands: memory.losses.map((own) => bandsOf(own, law.normals, fractions, setting.kind)),
      summaries: memory.ends.map((own) => summaryOf(own, law.normals, about.interval, setting.kind)),
    });
  }
  const { run, ends, bands, summaries } = memory;
  const alternatives = planner.alternatives[planner.lengths.indexOf(setting.steps)];
  const means = ends.map((own) => mean(own.mean));
  const regret = expectedRegret(alternatives, setting.weight, ends[0].mean, ends[1].mean);
  const best = bestMean(alternatives.front, setting.weight);
  // Few settings were searched: none may be as good as this one.
  const behind = Math.max(balance(setting.weight, ...means) - best.value, 0);
  return {
    run,
    ends,
    bands,
    summaries,
    means,
    regret,
    // What the best setting has left: regrets differ as the mean balances do.
    unavoidable: Math.max(regret - behind, 0),
    front: alternatives.front,
    best: best.place,
    breaches: setting.constraints.map((own) => breach(planner, setting, own, ends)),
    outside: outside(planner, setting, run.peak),
    starts: planner.bases[setting.base].loss.map(mean),
  };
}
