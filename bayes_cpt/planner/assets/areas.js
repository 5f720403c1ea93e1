// Areas of a CPT run (docs/law.md, "Areas"). Tested against bayes_cpt.laws.areas, step by step.

/** S1 after each step of `grid`: the sum of the learning rates. */
function forwardAreas(rates, grid) {
  const areas = new Float64Array(grid.length);
  let total = 0;
  for (let i = 0, step = 0; i < grid.length; i++) {
    for (; step < grid[i]; step++) total += rates[step];
    areas[i] = total;
  }
  return areas;
}

/**
 * S2 after each step of `grid` at each node, node by node: the memory of the falls of the learning rate,
 * m_i = momentum * m_{i-1} + (eta_{i-1} - eta_i), summed. `memories` hold m_0.
 */
function annealingAtNodes(rates, initial, nodes, memories, grid) {
  const areas = new Float64Array(nodes.length * grid.length);
  const falls = new Float64Array(rates.length);
  for (let step = 0; step < rates.length; step++) {
    falls[step] = (step === 0 ? initial : rates[step - 1]) - rates[step];
  }
  // Four nodes side by side, so that none waits for its own step before; the last group is filled up.
  const at = (node) => [nodes[node]?.momentum ?? 0, memories[node] ?? 0];
  for (let node = 0; node < nodes.length; node += 4) {
    let [l0, m0] = at(node), [l1, m1] = at(node + 1), [l2, m2] = at(node + 2), [l3, m3] = at(node + 3);
    let t0 = 0, t1 = 0, t2 = 0, t3 = 0;
    for (let i = 0, step = 0; i < grid.length; i++) {
      for (const last = grid[i]; step < last; step++) {
        const fall = falls[step];
        t0 += m0 = l0 * m0 + fall;
        t1 += m1 = l1 * m1 + fall;
        t2 += m2 = l2 * m2 + fall;
        t3 += m3 = l3 * m3 + fall;
      }
      // Beyond the last node nothing is written: a typed array ignores what lies outside.
      areas[node * grid.length + i] = t0;
      areas[(node + 1) * grid.length + i] = t1;
      areas[(node + 2) * grid.length + i] = t2;
      areas[(node + 3) * grid.length + i] = t3;
    }
  }
  return areas;
}

/** S2 of every draw at each point, draw by draw: the nodes' S2 in the weights of the draw. */
function annealingOfDraws(weights, atNodes, draws, points) {
  const areas = new Float64Array(draws * points);
  const nodes = atNodes.length / points;
  // Four nodes at a time: each area is read and written a quarter as often.
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
        areas[first + i] +=
          w0 * table[k0 + i] + w1 * table[k1 + i] + w2 * table[k2 + i] + w3 * table[k3 + i];
      }
    }
  }
  return areas;
}
