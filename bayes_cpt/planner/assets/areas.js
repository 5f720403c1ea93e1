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
  const momenta = Float64Array.from(nodes, (node) => node.momentum);
  const memory = Float64Array.from(memories);
  const totals = new Float64Array(nodes.length);
  for (let i = 0, step = 0; i < grid.length; i++) {
    for (; step < grid[i]; step++) {
      // Nodes side by side: none waits for the step before of its own.
      for (let node = 0; node < momenta.length; node++) {
        memory[node] = momenta[node] * memory[node] + falls[step];
        totals[node] += memory[node];
      }
    }
    for (let node = 0; node < momenta.length; node++) areas[node * grid.length + i] = totals[node];
  }
  return areas;
}

/** S2 of every draw at each point, draw by draw: the nodes' S2 in the weights of the draw. */
function annealingOfDraws(weights, atNodes, draws, points) {
  const areas = new Float64Array(draws * points);
  const nodes = atNodes.length / points;
  for (let draw = 0; draw < draws; draw++) {
    const own = areas.subarray(draw * points, (draw + 1) * points);
    for (let node = 0; node < nodes; node++) {
      const weight = weights[draw * nodes + node];
      const first = node * points;
      for (let i = 0; i < points; i++) own[i] += weight * atNodes[first + i];
    }
  }
  return areas;
}
