'use strict';
// Elements, numbers as text, and the charts.

const svgNamespace = 'http://www.w3.org/2000/svg';

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of [].concat(children === undefined ? [] : children)) {
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}
const make = (tag, attributes, children) => filled(document.createElement(tag), attributes, children);
const draw = (tag, attributes, children) => filled(document.createElementNS(svgNamespace, tag), attributes, children);

// JSON has no infinities: they come as text.
function numberText(value) {
  if (typeof value !== 'number') return value === null || value === undefined ? '' : String(value);
  if (Number.isInteger(value)) return value.toLocaleString('en');
  const size = Math.abs(value);
  if (size >= 1000) return value.toLocaleString('en', { maximumFractionDigits: 0 });
  return String(Number(value.toPrecision(size >= 1 ? 5 : 4)));
}
const percentText = (share) => `${(100 * share).toFixed(2)} %`;
function bytesText(bytes) {
  if (bytes < 10000) return `${numberText(bytes)} B`;
  return bytes < 1e7 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
const decibelText = (value) => (typeof value === 'number' ? `${value.toFixed(1)} dB` : numberText(value));
const properWords = { sqnr: 'SQNR', db: '(dB)', ms: '(ms)', percent: '%', gop: 'GOP', gb: 'GB', op: 'operator' };
function titleOf(key) {
  const words = key.split('_').map((word) => properWords[word] || word).join(' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

// A histogram of values with the values of the format over it: lines where they are few, else the ends of their range.
function histogramFigure(operand) {
  const { low, high, counts } = operand.histogram;
  const grid = operand.grid;
  const width = 320;
  const height = 90;
  const most = Math.max(...counts, 1);
  // The axis holds the values, and the range of the format as far as that is not much wider.
  const span = Math.max(high - low, Math.abs(high), 1e-30);
  const from = grid ? Math.max(Math.min(low, grid.low), low - span / 2) : low;
  const to = grid ? Math.min(Math.max(high, grid.high), high + span / 2) : high;
  const place = (value) => ((value - from) / Math.max(to - from, 1e-30)) * (width - 2) + 1;
  const summary = histogramText(operand);
  const picture = draw('svg', { viewBox: `0 0 ${width} ${height}`, width: '100%', role: 'img', 'aria-label': summary });
  const cell = (high - low) / counts.length;
  counts.forEach((count, i) => {
    if (count === 0) return;
    // The square root shows rare values too.
    const bar = Math.sqrt(count / most) * (height - 14);
    const left = place(low + i * cell);
    const right = counts.length === 1 ? left + 2 : place(low + (i + 1) * cell);
    picture.append(draw('rect', { class: 'bar', x: left, y: height - 12 - bar, width: Math.max(right - left, 0.5), height: bar }));
  });
  if (grid) {
    const lines = grid.values || [grid.low, grid.high];
    for (const value of lines) {
      if (value < from || value > to) continue;
      const top = grid.values ? height - 30 : 2;
      picture.append(draw('line', { class: 'grid', x1: place(value), x2: place(value), y1: top, y2: height - 10 }));
    }
  }
  picture.append(draw('line', { class: 'axis', x1: 0, x2: width, y1: height - 12, y2: height - 12 }));
  picture.append(draw('text', { x: 0, y: height - 1 }, numberText(from)));
  picture.append(draw('text', { x: width, y: height - 1, 'text-anchor': 'end' }, numberText(to)));
  return make('figure', {}, [picture, make('figcaption', {}, summary)]);
}

function histogramText(operand) {
  const { low, high, not_finite: notFinite } = operand.histogram;
  let text = `values ${numberText(low)} to ${numberText(high)}`;
  if (operand.grid) {
    const { count, low: least, high: greatest } = operand.grid;
    const where = operand.granularity === 'tensor' ? '' : ` in the first ${operand.granularity}`;
    text += `; the format holds ${numberText(count)} from ${numberText(least)} to ${numberText(greatest)}${where}`;
  }
  if (typeof operand.clipped_share === 'number') text += `; ${percentText(operand.clipped_share)} clipped`;
  if (notFinite > 0) text += `; ${numberText(notFinite)} not finite`;
  return text;
}

// Values of nodes that are called alike but for a number, as layers_3_attention_query: numbers down, the rest across.
// Nothing where there are no two of both, or most places would be empty.
function heatMap(entries) {
  const cells = new Map();
  for (const { name, value } of entries) {
    const parts = /^(\D*)(\d+)_(.+)$/.exec(name);
    if (parts && typeof value === 'number') cells.set(`${parts[1]}${parts[2]} ${parts[3]}`, value);
  }
  const part = (place) => [...new Set([...cells.keys()].map((key) => key.split(' ')[place]))];
  const [rows, columns] = [part(0), part(1)];
  if (rows.length < 2 || columns.length < 2 || 2 * cells.size < rows.length * columns.length) return null;
  rows.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  const [low, high] = [Math.min(...cells.values()), Math.max(...cells.values())];
  const cell = (row, column) => {
    const value = cells.get(`${row} ${column}`);
    if (value === undefined) return make('td');
    const share = Math.round((80 * (high - value)) / Math.max(high - low, 1e-30));
    return make('td', { class: 'number', style: `background: color-mix(in srgb, var(--bad) ${share}%, transparent)` }, value.toFixed(1));
  };
  const head = make('tr', {}, [make('th', { scope: 'col' }, ''), ...columns.map((column) => make('th', { scope: 'col', class: 'number' }, column.replaceAll('_', ' ')))]);
  const body = rows.map((row) => make('tr', {}, [make('th', { scope: 'row' }, row), ...columns.map((column) => cell(row, column))]));
  return make('div', { class: 'scroll heat', tabindex: '0', role: 'region', 'aria-label': 'heat map' },
    make('table', {}, [make('thead', {}, head), make('tbody', {}, body)]));
}

// Bars with names before and amounts after them; the first ones, and all when asked for.
function barList(entries, shown) {
  const list = make('div', { class: 'bars', role: 'list' });
  const most = Math.max(...entries.map((entry) => Math.abs(entry.value)), 1e-30);
  const add = (entry) => {
    const length = make('div', { class: entry.value < 0 ? 'length below' : 'length' });
    length.style.width = `${(100 * Math.abs(entry.value)) / most}%`;
    const row = make('div', { role: 'listitem', style: 'display: contents' }, [
      make('span', { class: 'name', title: entry.name }, entry.name),
      make('div', { class: 'track', 'aria-hidden': 'true' }, length),
      make('span', { class: 'amount' }, entry.text),
    ]);
    list.append(row);
  };
  entries.slice(0, shown).forEach(add);
  if (entries.length <= shown) return list;
  const more = make('button', { type: 'button' }, `Show all ${entries.length}`);
  more.addEventListener('click', () => {
    entries.slice(shown).forEach(add);
    more.remove();
  });
  return make('div', {}, [list, more]);
}

// Points (x: cost, y: what is won), the front as a line through those that no other beats.
function frontFigure(front) {
  const width = 640;
  const height = 300;
  const left = 70;
  const bottom = 40;
  const xs = front.points.map((point) => point.cost);
  const ys = front.points.map((point) => point.value);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  const [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  const placeX = (x) => left + ((x - x0) / Math.max(x1 - x0, 1e-30)) * (width - left - 20);
  const placeY = (y) => height - bottom - ((y - y0) / Math.max(y1 - y0, 1e-30)) * (height - bottom - 20);
  const picture = draw('svg', {
    viewBox: `0 0 ${width} ${height}`, width: '100%', role: 'img', style: 'max-width: 48rem',
    'aria-label': `${front.points.length} networks: ${front.value_name} against ${front.cost_name}; the table has the numbers`,
  });
  const text = (x, y, anchor, content) => picture.append(draw('text', { x, y, 'text-anchor': anchor }, content));
  picture.append(draw('line', { class: 'axis', x1: left, x2: width, y1: height - bottom, y2: height - bottom }));
  picture.append(draw('line', { class: 'axis', x1: left, x2: left, y1: 0, y2: height - bottom }));
  text(left, height - bottom + 15, 'start', numberText(x0));
  text(width, height - bottom + 15, 'end', numberText(x1));
  text(left - 5, placeY(y0), 'end', numberText(y0));
  text(left - 5, placeY(y1) + 5, 'end', numberText(y1));
  text((left + width) / 2, height - 4, 'middle', titleOf(front.cost_name));
  text(0, 12, 'start', titleOf(front.value_name));
  const best = front.points.filter((point) => point.on_front).sort((a, b) => a.cost - b.cost);
  picture.append(draw('polyline', { class: 'front', points: best.map((p) => `${placeX(p.cost)},${placeY(p.value)}`).join(' ') }));
  for (const point of front.points) {
    const label = `${point.name}: ${numberText(point.value)} at ${numberText(point.cost)}${point.chosen ? ', chosen' : ''}`;
    const dot = draw('circle', {
      class: point.chosen ? 'point chosen' : 'point', cx: placeX(point.cost), cy: placeY(point.value),
      r: point.chosen ? 7 : point.on_front ? 5 : 3,
    });
    dot.append(draw('title', {}, label));
    picture.append(dot);
  }
  return make('figure', {}, [picture, make('figcaption', {}, 'The line joins those that no other beats in both; the large point is chosen.')]);
}
