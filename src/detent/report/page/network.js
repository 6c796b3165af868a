// The network: a line of dots and edges for each node in execution order beside its name, and what is known of the node
// that is chosen.

// Which column carries each value: the first free one from where it is computed to its last reader.
function assignLanes(nodes) {
  const row = new Map(nodes.map((node, i) => [node.name, i]));
  const lastReader = new Map();
  nodes.forEach((node, i) => node.reads.forEach((name) => lastReader.set(name, i)));
  const busyUntil = [];  // by column
  const lanes = new Map();
  nodes.forEach((node, i) => {
    const ends = lastReader.has(node.name) ? lastReader.get(node.name) : i;
    const passedOn = node.reads.map((name) => lanes.get(name)).find((lane) => busyUntil[lane] <= i);
    let lane = passedOn;
    if (lane === undefined) {
      lane = busyUntil.findIndex((until) => until < i);
      if (lane < 0) lane = busyUntil.length;
    }
    busyUntil[lane] = ends;
    lanes.set(node.name, lane);
  });
  return { row, lanes, count: Math.max(busyUntil.length, 1) };
}

function drawEdges(nodes, height) {
  const { row, lanes, count } = assignLanes(nodes);
  const step = 16;
  const middle = (i) => (i + 0.5) * height;
  const across = (name) => (lanes.get(name) + 0.5) * step + 4;
  const picture = draw('svg', { width: count * step + 8, height: nodes.length * height, 'aria-hidden': 'true' });
  nodes.forEach((node, i) => {
    for (const name of node.reads) {
      if (!row.has(name)) continue;
      const [x0, x1] = [across(name), across(node.name)];
      const turn = middle(i) - height * 0.7;
      picture.append(draw('path', {
        class: 'edge',
        d: `M ${x0} ${middle(row.get(name))} V ${Math.max(turn, middle(row.get(name)))} C ${x0} ${middle(i)}, ${x1} ${turn}, ${x1} ${middle(i)}`,
      }));
    }
  });
  for (const [i, node] of nodes.entries()) {
    const kind = (node.computes_in || '').startsWith('integers') ? 'dot integers' : node.computes_in === 'float' ? 'dot float' : 'dot';
    picture.append(draw('circle', { class: kind, cx: across(node.name), cy: middle(i), r: 5 }));
  }
  return picture;
}

function bitsSummary(node) {
  const bits = (name) => {
    const operand = node.operands.find((candidate) => candidate.operand === name);
    return operand === undefined ? null : numberText(operand.bits);
  };
  const weight = bits('weight');
  const input = bits('data_in_0');
  return [weight === null ? '' : `w${weight}`, input === null ? '' : `a${input}`].filter(Boolean).join(' ');
}

function definitions(entries) {
  const list = make('dl');
  for (const [name, value] of entries) {
    if (value === '' || value === null || value === undefined) continue;
    list.append(make('dt', {}, name), make('dd', {}, value));
  }
  return list;
}

function nodeDetails(node, error, step) {
  const shape = node.shape ? `[${node.shape.join(', ')}]` : '';
  const entries = [
    ['operator', node.op], ['result', shape], ['reads', node.reads.join(', ')],
    ['computes in', node.computes_in], ['in float because', node.in_float_because],
    ['parameters', node.parameters && `${numberText(node.parameters)} in ${bytesText(node.parameter_bytes)}`],
  ];
  if (error) {
    entries.push(['SQNR alone', decibelText(error.alone.sqnr_db)], ['SQNR together', decibelText(error.together.sqnr_db)],
      ['SQNR of weights', error.weight && decibelText(error.weight.sqnr_db)],
      ['gain of output in float', error.output_gain_db !== undefined ? decibelText(error.output_gain_db) : ''],
      ['saturated', error.saturated_share !== undefined ? percentText(error.saturated_share) : '']);
  }
  if (step) {
    entries.push(['kernel', step.kernel], ['time', `${numberText(step.microseconds)} µs`],
      ['of the limit', percentText(step.share_of_limit)], ['not faster because', step.not_faster_because]);
  }
  const parts = [make('h3', {}, node.name), definitions(entries)];
  const weightsFirst = [...node.operands].sort((a, b) => Number(b.operand === 'weight') - Number(a.operand === 'weight'));
  for (const operand of weightsFirst) {
    parts.push(make('h3', {}, `${operand.operand}: ${operand.format}, ${numberText(operand.bits)} bits, ${operand.granularity}`));
    parts.push(operand.histogram && operand.histogram.counts.length > 0
      ? histogramFigure(operand)
      : make('p', { class: 'dim' }, operand.grid
        ? `holds ${numberText(operand.grid.count)} values from ${numberText(operand.grid.low)} to ${numberText(operand.grid.high)}`
        : 'no values were observed'));
  }
  return parts;
}

// The steps of the profile by the nodes that they compute ("conv1, relu"); of several the longest.
function stepsByNode(profile) {
  const steps = new Map();
  for (const step of profile || []) {
    for (const name of step.nodes.split(/[ +,]+/)) {
      const other = steps.get(name);
      if (other === undefined || other.microseconds < step.microseconds) steps.set(name, step);
    }
  }
  return steps;
}

function networkSection(results) {
  const nodes = results.network.nodes;
  const errors = new Map((results.layerwise_error || []).map((error) => [error.node, error]));
  const steps = stepsByNode(results.profile);
  const details = make('div', { class: 'details', 'aria-live': 'polite', id: 'details', tabindex: '0' });
  const list = make('ol', { 'aria-label': 'Nodes in execution order' });
  const buttons = nodes.map((node, i) => {
    const error = errors.get(node.name);
    const button = make('button', { type: 'button', 'aria-pressed': 'false', 'data-node': node.name, tabindex: i === 0 ? '0' : '-1' }, [
      make('span', {}, node.name), make('span', { class: 'dim' }, node.op),
      make('span', { class: 'formats dim' }, bitsSummary(node)),
      make('span', { class: 'dim' }, error ? decibelText(error.together.sqnr_db) : ''),
    ]);
    button.addEventListener('click', () => choose(i));
    list.append(make('li', {}, button));
    return button;
  });
  let chosen = -1;
  function choose(i) {
    if (chosen >= 0) {
      buttons[chosen].setAttribute('aria-pressed', 'false');
      buttons[chosen].tabIndex = -1;
    }
    chosen = i;
    buttons[i].setAttribute('aria-pressed', 'true');
    buttons[i].tabIndex = 0;
    details.replaceChildren(...nodeDetails(nodes[i], errors.get(nodes[i].name), steps.get(nodes[i].name)));
  }
  const shownBeside = (i, by) => {
    let next = i + by;
    while (next >= 0 && next < buttons.length && buttons[next].parentNode.hidden) next += by;
    return next >= 0 && next < buttons.length ? next : i;
  };
  list.addEventListener('keydown', (event) => {
    const at = buttons.indexOf(document.activeElement);
    const target = { ArrowDown: () => shownBeside(at, 1), ArrowUp: () => shownBeside(at, -1), Home: () => shownBeside(-1, 1),
      End: () => shownBeside(buttons.length, -1) }[event.key];
    if (at < 0 || target === undefined) return;
    event.preventDefault();
    choose(target());
    buttons[chosen].focus();
  });
  const rows = make('div', { class: 'rows' });
  let height = 26;
  function layOut() {
    list.style.fontSize = `${height * 0.55}px`;
    for (const button of buttons) button.style.height = `${height}px`;
    rows.replaceChildren(drawEdges(nodes, height), list);
  }
  const zoom = (label, change) => {
    const button = make('button', { type: 'button' }, label);
    button.addEventListener('click', () => {
      height = Math.min(60, Math.max(8, change(height)));
      layOut();
    });
    return button;
  };
  const search = make('input', { type: 'search', placeholder: 'node or operator', 'aria-label': 'Find nodes by name or operator' });
  search.addEventListener('input', () => {
    nodes.forEach((node, i) => {
      buttons[i].parentNode.hidden = !`${node.name} ${node.op}`.includes(search.value.trim());
    });
    const first = shownBeside(-1, 1);
    if (search.value && first >= 0) buttons[first].scrollIntoView({ block: 'nearest' });
  });
  layOut();
  const worst = results.layerwise_error && results.layerwise_error.length > 0
    ? nodes.findIndex((node) => node.name === results.layerwise_error[0].node) : 0;
  choose(Math.max(worst, 0));
  const graph = make('div', { class: 'graph' }, rows);
  requestAnimationFrame(() => { graph.scrollTop = buttons[chosen].offsetTop - graph.clientHeight / 2; });
  return [
    make('p', { class: 'dim' }, `${nodes.length} nodes. Blue dots compute in integers, violet ones in float; w4 a8: bits of weights and inputs; behind them the SQNR of the result. Arrow keys move.`),
    make('div', { class: 'controls' }, [search, zoom('Larger', (size) => size * 1.25), zoom('Smaller', (size) => size / 1.25)]),
    make('div', { class: 'network' }, [graph, details]),
  ];
}
