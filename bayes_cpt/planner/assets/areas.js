// Areas of a CPT run (docs/law.md, "Areas"). Tested against bayes_cpt.laws.areas, step by step.

/** Learning rates in a unit, to a power. */
function powered(rates, unit, power) {
  const found = new Float64Array(rates.length);
  for (let step = 0; step < rates.length; step++) {
    const rate = rates[step] / unit;
    found[step] = power === 1 ? rate : power === 0 ? 1 : Math.exp(power * Math.log(rate));
  }
  return found;
}

/** The sum of some values up to each step of `grid`. */
function summed(values, grid) {
  const sums = new Float64Array(grid.length);
  let total = 0;
  for (let i = 0, step = 0; i < grid.length; i++) {
    for (; step < grid[i]; step++) total += values[step];
    sums[i] = total;
  }
  return sums;
}

/** Log of the sum of learning rates to each power, power by power; `before` holds what it is at the start. */
function logAreasAtNodes(rates, powers, before, smallest, grid) {
  const found = new Float64Array(powers.length * grid.length);
  // Of 0 a finite number: to the power 0 it is 1, to any other 0.
  const logs = rates.map((rate) => Math.max(Math.log(rate), -1e300));
  powers.forEach((power, node) => {
    let log = NaN, area = 0, sum = 0;
    for (let i = 0, step = 0; i < grid.length; i++) {
      for (; step < grid[i]; step++) {
        // Where the learning rate stands still its powers do.
        if (logs[step] !== log) {
          log = logs[step];
          area = Math.exp(power * log);
        }
        sum += area;
      }
      found[node * grid.length + i] = Math.log(Math.max(before[node] + sum, smallest));
    }
  });
  return found;
}

/** How far the memory's clock moves in each step. */
function pacesOf(rates, areas) {
  return powered(rates, areas.reference_rate, areas.memory_clock);
}

/**
 * The level e of the learning rate after each step of `grid` at each momentum, momentum by momentum:
 * e_i = d_i * e_{i-1} + (1 - d_i) * eta_i with d_i = lambda^pace_i. `initial` holds e_0.
 */
function levelsAtNodes(rates, paces, momenta, initial, grid) {
  const levels = new Float64Array(momenta.length * grid.length);
  // Four nodes side by side, so that none waits for its own step before; the last group is filled up.
  const at = (node) => [Math.log(momenta[node] ?? 0.5), initial[node] ?? 0];
  for (let node = 0; node < momenta.length; node += 4) {
    let [l0, e0] = at(node), [l1, e1] = at(node + 1), [l2, e2] = at(node + 2), [l3, e3] = at(node + 3);
    let pace = NaN, t0 = 0, t1 = 0, t2 = 0, t3 = 0;
    for (let i = 0, step = 0; i < grid.length; i++) {
      for (const last = grid[i]; step < last; step++) {
        if (paces[step] !== pace) {
          pace = paces[step];
          t0 = -Math.expm1(pace * l0);
          t1 = -Math.expm1(pace * l1);
          t2 = -Math.expm1(pace * l2);
          t3 = -Math.expm1(pace * l3);
        }
        const rate = rates[step];
        e0 += t0 * (rate - e0);
        e1 += t1 * (rate - e1);
        e2 += t2 * (rate - e2);
        e3 += t3 * (rate - e3);
      }
      // Beyond the last node nothing is written: a typed array ignores what lies outside.
      levels[node * grid.length + i] = e0;
      levels[(node + 1) * grid.length + i] = e1;
      levels[(node + 2) * grid.length + i] = e2;
      levels[(node + 3) * grid.length + i] = e3;
    }
  }
  return levels;
}

/** What every draw makes of values at nodes, at each point, draw by draw: a sum in the draw's weights. */
function weighted(weights, atNodes, draws, points) {
  const sums = new Float64Array(draws * points);
  const nodes = atNodes.length / points;
  // Four nodes at a time: each sum is read and written a quarter as often.
  const padded = Math.ceil(nodes / 4) * 4;
  const table = new Float64Array(padded * points);
  table.set(atNodes);
  const own = new Float64Array(padded);
  for (let draw = 0; draw < draws; draw++) {
    own.set(weights.subarray(draw * nodes, (draw + 1) * nodes));
    const first = draw * points;
    for (let node = 0; node < padded; node += 4) {
      const w0 = own[node], w1 = own[node + 1], w2 = own[node + 2], w3 = own[node + 3];
      const k0 = node * points, k1 = k0 + points, k2 = k1 + points, k3 = k2 + points;
      for (let i = 0; i < points; i++) {
        sums[first + i] +=
          w0 * table[k0 + i] + w1 * table[k1 + i] + w2 * table[k2 + i] + w3 * table[k3 + i];
      }
    }
  }
  return sums;
}
