// The sections of the page, each shown where the results have what it tells.

function tableOf(rows) {
  const columns = [];
  for (const row of rows) {
    for (const key of Object.keys(row)) {
      if (!columns.includes(key)) columns.push(key);
    }
  }
  const isNumber = (key) => rows.every((row) => ['number', 'undefined'].includes(typeof row[key]) || row[key] === null);
  const cellText = (value) => (value !== null && typeof value === 'object' ? JSON.stringify(value) : numberText(value));
  const head = make('tr', {}, columns.map((key) => make('th', { scope: 'col', class: isNumber(key) ? 'number' : null }, titleOf(key))));
  const body = rows.map((row) => make('tr', {}, columns.map((key) => make('td', { class: isNumber(key) ? 'number' : null }, cellText(row[key])))));
  return make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'table' },
    make('table', {}, [make('thead', {}, head), make('tbody', {}, body)]));
}

const isTable = (value) => Array.isArray(value) && value.length > 0 && value.every((row) => row !== null && typeof row === 'object' && !Array.isArray(row));

function facts(results) {
  const entries = [];
  for (const accuracy of results.accuracy || []) {
    entries.push([`accuracy, ${accuracy.network}`, `${percentText(accuracy.accuracy)} \u00b1 ${percentText(accuracy.standard_error)} (${numberText(accuracy.correct)} of ${numberText(accuracy.samples)})`]);
  }
  for (const [network, size] of Object.entries(results.sizes || {})) {
    entries.push([`weights, ${network}`, `${bytesText(size.weight_bytes)}, ${size.bits_per_weight.toFixed(2)} bits each`]);
  }
  if (results.sizes && results.sizes.quantized) {
    entries.push(['activations, quantized', `${results.sizes.quantized.bits_per_activation.toFixed(2)} bits each`]);
  }
  for (const output of results.outputs || []) entries.push([`SQNR of ${output.output}`, decibelText(output.sqnr)]);
  if (results.latency) entries.push(['median latency', `${numberText(results.latency[0].median_ms)} ms`]);
  return make('dl', { class: 'facts' }, entries.map(([name, value]) => make('div', {}, [make('dt', {}, name), make('dd', {}, value)])));
}

function sensitivities(errors) {
  const tried = errors.filter((error) => typeof error.output_gain_db === 'number');
  const rest = errors.filter((error) => typeof error.output_gain_db !== 'number');
  const parts = [];
  if (tried.length > 0) {
    parts.push(make('p', {}, 'What the SQNR of the output would win with this node alone in float:'),
      barList(tried.map((error) => ({ name: error.node, value: error.output_gain_db, text: `${error.output_gain_db.toFixed(2)} dB` })), 20));
  }
  const map = heatMap(errors.map((error) => ({ name: error.node, value: error.together.sqnr_db })));
  if (map) {
    parts.push(make('h3', {}, 'Layers and what they consist of'),
      make('p', {}, 'SQNR of each node (dB) with all quantized, the darker the lower:'), map);
  }
  const row = (error) => ({
    node: error.node, operator: error.op, gain_db: error.output_gain_db, sqnr_alone_db: error.alone.sqnr_db,
    sqnr_together_db: error.together.sqnr_db, sqnr_of_weights_db: error.weight && error.weight.sqnr_db,
    cosine: error.together.cosine, saturated: error.saturated_share === undefined ? undefined : percentText(error.saturated_share),
  });
  parts.push(make('h3', {}, 'All nodes, the worst first'), tableOf(tried.concat(rest).map(row)));
  return parts;
}

// What a search measured: each operand by itself in its smallest format, then all of them.
function operandSensitivities(sensitivities) {
  const smallest = new Map();
  for (const entry of sensitivities) {
    const name = `${entry.node} ${entry.operand}`;
    if (!smallest.has(name) || entry.bits < smallest.get(name).bits) smallest.set(name, entry);
  }
  const bars = [...smallest].map(([name, entry]) => ({ name, value: entry.distortion, text: `${numberText(entry.distortion)} in ${entry.format}` }));
  return [make('p', {}, 'What the smallest format of each operand does, by itself, to the output:'),
    barList(bars.sort((a, b) => b.value - a.value), 20), make('h3', {}, 'All formats'), tableOf(sensitivities)];
}

function sizesByLayer(network) {
  const sized = network.nodes.filter((node) => node.parameter_bytes > 0).sort((a, b) => b.parameter_bytes - a.parameter_bytes);
  return [barList(sized.map((node) => ({ name: node.name, value: node.parameter_bytes, text: bytesText(node.parameter_bytes) })), 20)];
}

function timesByStep(profile) {
  const sorted = [...profile].sort((a, b) => b.microseconds - a.microseconds);
  return [barList(sorted.map((step) => ({ name: step.nodes, value: step.microseconds, text: `${numberText(step.microseconds)} µs` })), 20),
    tableOf(profile)];
}

function paretoSection(front) {
  const rows = [...front.points].sort((a, b) => a.cost - b.cost).map((point) => ({
    network: point.name, [front.cost_name]: point.cost, [front.value_name]: point.value,
    on_front: point.on_front ? 'yes' : '', chosen: point.chosen ? 'yes' : '',
  }));
  return [frontFigure(front), tableOf(rows)];
}

function configuration(results) {
  const tables = { options: results.configuration, passes: results.passes, search: results.search_options };
  const text = Object.entries(tables).filter(([, table]) => table && Object.keys(table).length > 0)
    .map(([name, table]) => `${name} = ${JSON.stringify(table, null, 2)}`).join('\n\n');
  return [make('pre', { tabindex: '0' }, text)];
}

const shownElsewhere = new Set(['schema', 'schema_version', 'command', 'version', 'accuracy', 'sizes', 'network', 'layerwise_error',
  'profile', 'pareto', 'configuration', 'passes', 'warnings', 'advice', 'integer_execution']);

function sectionsOf(results) {
  const sections = [];
  const add = (title, content) => sections.push({ title, content });
  const summary = facts(results);
  const notes = [];
  for (const warning of results.warnings || []) notes.push(make('p', { class: 'warning' }, warning));
  if (results.advice) notes.push(make('p', { class: 'advice' }, results.advice));
  if (results.integer_execution) notes.push(make('p', {}, `Integer execution: ${results.integer_execution}.`));
  if (summary.childElementCount > 0 || notes.length > 0) add('Summary', [summary, ...notes]);
  if (results.pareto && results.pareto.points.length > 0) add('Pareto front', paretoSection(results.pareto));
  if (results.network) add('Network', networkSection(results));
  if (results.layerwise_error && results.layerwise_error.length > 0) add('Sensitivity', sensitivities(results.layerwise_error));
  if (results.search && results.search.sensitivities.length > 0) add('Sensitivity of operands', operandSensitivities(results.search.sensitivities));
  if (results.profile) add('Time by step', timesByStep(results.profile));
  if (results.network) add('Size by layer', sizesByLayer(results.network));
  for (const [key, value] of Object.entries(results)) {
    if (!shownElsewhere.has(key) && isTable(value)) add(titleOf(key), [tableOf(value)]);
  }
  if (results.configuration) add('Configuration', configuration(results));
  return sections;
}

function showPage() {
  const results = JSON.parse(document.getElementById('results').textContent);
  const name = results.network ? results.network.name : '';
  document.getElementById('title').textContent = name ? `${name}: detent ${results.command}` : `detent ${results.command}`;
  document.getElementById('subtitle').textContent = `Detent ${results.version}`;
  for (const { title, content } of sectionsOf(results)) {
    const id = title.toLowerCase().replaceAll(' ', '-');
    document.getElementById('sections').append(make('li', {}, make('a', { href: `#${id}` }, title)));
    document.getElementById('report').append(make('section', { 'aria-labelledby': `${id}-title`, id }, [make('h2', { id: `${id}-title` }, title), ...content]));
  }
}

showPage();
