// A setting of the controls -> what its run comes to in every posterior draw, and in bands.
// The law itself is `LAWS`, one function per validation set, generated from the terms of bayes_cpt.laws.

/** The data of the page, its packed arrays opened. */
function opened(data) {
  const { law } = data;
  const parameters = law.parameters.map((own) =>
    Object.fromEntries(Object.entries(own).map(([name, values]) => [`p_${name}`, unpacked(values)])),
  );
  const bases = data.bases.map((base) => ({
    ...base,
    level: base.level.map(unpacked),
    offset: base.offset.map(unpacked),
    loss: base.loss.map(unpacked),
  }));
  const reference = Object.fromEntries(
    Object.entries(law.reference).map(([name, value]) => [`reference_${name}`, value]),
  );
  const areas = { ...law.areas };
  for (const name of ["level", "forward", "shift"]) {
    areas[name] = { ...areas[name], weights: areas[name].weights.map(unpacked) };
  }
  const alternatives = data.alternatives.map((own) => ({ ...own, hulls: unpacked(own.hulls) }));
  const normals = unpacked(law.normals);
  return { ...data, law: { ...law, parameters, reference, areas, normals }, bases, alternatives };
}

/** Variance of a misfit of size 1 after some steps: that of an Ornstein-Uhlenbeck process. */
function misfitVariance({ onset, carried }, step) {
  const folds = Math.log1p(step / onset);
  return carried < 1 ? (1 - carried ** (2 * folds)) / (1 - carried ** 2) : folds;
}

/** What all validation sets take of a run: areas and learning rates at the steps of a grid. */
function pointsOf(planner, setting, grid) {
  const { law } = planner;
  const { areas, draws } = law;
  const base = planner.bases[setting.base];
  const segments = segmentsOf(setting, base.initial);
  const rates = ratesOf(segments);
  const [first, ...after] = segments;
  const warmup = first.end > first.start ? first.steps : 0;
  // Without a short fall from the base's learning rate: bayes_cpt.study.runs.Run.peak.
  const own = after.length && first.end < first.start && first.steps <= 0.1 * rates.length ? after : segments;
  const paces = pacesOf(rates, areas);
  const levels = levelsAtNodes(rates, paces, areas.level.momenta, base.initial_levels, grid);
  const { smallest, reference_rate: unit } = areas;
  const forward = logAreasAtNodes(rates, areas.forward.powers, base.forward, smallest, grid);
  const relative = rates.map((rate) => rate / unit);
  const nothing = areas.shift.powers.map(() => 0);
  const shift = logAreasAtNodes(relative, areas.shift.powers, nothing, smallest, grid);
  // Of each validation set, or one for all, in every draw.
  const inDraws = (weights, atNodes) => weights.map((own) => weighted(own, atNodes, draws, grid.length));
  return {
    grid,
    rates,
    peak: Math.max(...own.map((part) => Math.max(part.start, part.end))),
    points: {
      cpt_steps: grid,
      paced_steps: summed(paces, grid),
      squared_area: summed(rates.map((rate) => rate ** 2), grid),
      learning_rate: grid.map((step) => rates[step - 1] / law.reference.reference_learning_rate),
      rewarming: grid.map((step) => (law.misfit.rewarming * Math.max(warmup - step, 0)) / Math.max(warmup, 1)),
      misfit_variance: grid.map((step) => misfitVariance(law.misfit, step)),
      beyond: grid.map((step) => Math.log(Math.max(step / law.misfit.studied, 1))),
    },
    both: {
      log_level_cpt: inDraws(areas.level.weights, levels).map((every) =>
        every.map((own) => Math.log(Math.max(own, smallest))),
      ),
      log_forward: inDraws(areas.forward.weights, forward),
      log_shift: inDraws(areas.shift.weights, shift).map((every) =>
        every.map((own) => own + Math.log(unit)),
      ),
    },
  };
}

/** What `LAWS` fill in, per validation set: every draw at every point; fluctuation and own misfit at the last. */
function lossesOf(planner, setting, run) {
  const { law } = planner;
  const base = planner.bases[setting.base];
  return LAWS.map((fill, domain) => {
    const size = law.draws * run.grid.length;
    const found = {
      draws: law.draws,
      points: run.grid.length,
      mean: new Float64Array(size),
      sd: new Float64Array(size),
      fluctuation: new Float64Array(law.draws),
      own: new Float64Array(law.draws),
    };
    const all = {
      ...law.reference,
      target_share: 1 - setting.replay,
      start_pt: base.start_pt,
      log_peak_pt: base.log_peak_pt,
      start_cpt: Math.max(base.initial, law.areas.smallest),
      carried: base.carried,
    };
    const draws = {
      ...law.parameters[domain],
      level_pt: base.level[domain] ?? base.level[0],
      base_offset: base.offset[domain],
    };
    const both = Object.fromEntries(
      Object.entries(run.both).map(([name, every]) => [name, every[domain] ?? every[0]]),
    );
    fill(all, run.points, draws, both, found);
    return found;
  });
}

/** Quantiles at every point, fraction by fraction: of new runs, or of the law's own curve. */
function bandsOf(losses, normals, fractions, kind) {
  const { draws, points, mean: means, sd } = losses;
  const noisy = kind === "new_run";
  const bands = fractions.map(() => new Float64Array(points));
  const rising = new Float64Array(draws);
  const order = Int32Array.from({ length: draws }, (_, draw) => draw);
  for (let i = 0; i < points; i++) {
    // Draws keep nearly their order from one point to the next: few are moved.
    for (let rank = 0; rank < draws; rank++) {
      const draw = order[rank];
      const k = draw * points + i;
      const value = noisy ? means[k] + sd[k] * normals[draw] : means[k];
      let place = rank;
      for (; place > 0 && rising[place - 1] > value; place--) {
        rising[place] = rising[place - 1];
        order[place] = order[place - 1];
      }
      rising[place] = value;
      order[place] = draw;
    }
    fractions.forEach((fraction, place) => {
      bands[place][i] = quantile(rising, fraction);
    });
  }
  return bands;
}

/** Mean and sd of every draw at the last point, and the sds of fluctuation and own misfit. */
function endOf(losses) {
  const { draws, points } = losses;
  const at = (values) =>
    Float64Array.from({ length: draws }, (_, draw) => values[(draw + 1) * points - 1]);
  const { fluctuation, own } = losses;
  return { mean: at(losses.mean), sd: at(losses.sd), fluctuation, own };
}

/** Median, ends of the central interval, mean and sd of what a loss may be. */
function summaryOf(end, normals, interval, kind) {
  const noisy = kind === "new_run";
  const values = end.mean.map((value, draw) => (noisy ? value + end.sd[draw] * normals[draw] : value));
  values.sort();
  const centre = mean(end.mean);
  const apart = end.mean.reduce((sum, value) => sum + (value - centre) ** 2, 0);
  const noise = noisy ? mean(end.sd.map((own) => own * own)) : 0;
  return {
    mean: centre,
    sd: Math.sqrt(apart / (end.mean.length - 1) + noise),
    median: quantile(values, 0.5),
    lower: quantile(values, 0.5 - interval / 2),
    upper: quantile(values, 0.5 + interval / 2),
  };
}

/**
 * Density of what a loss may be, at some places: normal about every draw. Where there is no noise the draws
 * are smoothed by Silverman's rule.
 */
function densityOf(end, summary, places, kind) {
  const rule = 0.9 * summary.sd * end.mean.length ** -0.2;
  const scales = kind === "new_run" ? end.sd : end.sd.map(() => rule);
  return places.map((place) => {
    let sum = 0;
    for (let draw = 0; draw < scales.length; draw++) {
      const z = (place - end.mean[draw]) / scales[draw];
      sum += Math.exp(-0.5 * z * z) / scales[draw];
    }
    return sum / (scales.length * Math.sqrt(2 * Math.PI));
  });
}
