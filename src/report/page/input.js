// What wheel, mouse and keys do, and the text at the cursor.

function show(view, from, to) {
  const {total} = view.model, least = Math.min(total, 20);
  const span = Math.min(total * 1.02, Math.max(least, to - from));
  const low = -0.01 * total, high = 1.01 * total;
  view.from = Math.min(Math.max(low, from), high - span);
  view.to = view.from + span;
}
function zoom(view, factor, time) {
  show(view, time - (time - view.from) * factor, time + (view.to - time) * factor);
}
function move(view, share) {
  const by = share * (view.to - view.from);
  show(view, view.from + by, view.to + by);
}
// Brings a run into the window, ten times as wide as it unless it is well visible already.
function bringIn(view, run) {
  const {start, end} = view.model, span = view.to - view.from, length = end[run] - start[run];
  const visible = start[run] >= view.from && end[run] <= view.to && length > span / 200;
  if (visible) return;
  const wide = Math.min(Math.max(span, length * 1.5), length > 0 ? length * 40 : span);
  const middle = (start[run] + end[run]) / 2;
  show(view, middle - wide / 2, middle + wide / 2);
}

function rowAt(view, y) {
  return view.layout.rows.find(row => y >= row.y && y < row.y + row.height);
}

// The run at a point, or the nearest within two pixels; -1 when there is none.
function runUnder(view, x, y) {
  const row = rowAt(view, y);
  if (!row || row.resource === undefined || x < kGutter) return -1;
  const {model} = view, time = timeAt(view, x), length = queueLength(model, row.resource);
  const next = firstThat(0, length, i => model.end[runAt(model, row.resource, i)] > time);
  let nearest = -1, distance = 2;
  for (const i of [next - 1, next]) {
    if (i < 0 || i >= length) continue;
    const run = runAt(model, row.resource, i);
    const away = Math.max(xOf(view, model.start[run]) - x, x - xOf(view, model.end[run]), 0);
    if (away < distance || (away === 0 && i === next)) { nearest = run; distance = away; }
  }
  return nearest;
}

// "F.3.0 (step 1): after, ended at 3.2 ms", at most eight of them.
function listRelations(tip, title, relations, words) {
  if (relations.length === 0) return;
  tip.appendChild(element('div', title));
  for (const one of relations.slice(0, 8)) {
    tip.appendChild(element('div', '\u2022 ' + words(one), one.released ? 'released' : ''));
  }
  if (relations.length > 8) tip.appendChild(element('div', `and ${relations.length - 8} more`));
}

function describeRun(tip, model, run) {
  const {tasks, data, start, end} = model, task = run % tasks.count;
  const step = other => Math.floor(other / tasks.count);
  const name = other =>
      tasks.names[other % tasks.count] + (step(other) === step(run) ? '' : ` of step ${step(other)}`);
  tip.appendChild(element('b', tasks.names[task]));
  const resource = data.resources[tasks.resource[task]].name;
  tip.appendChild(element('div', `${data.kinds[tasks.kind[task]]} on ${resource}, step ${step(run)}`));
  const length = end[run] - start[run];
  tip.appendChild(element('div', `${momentText(start[run])} to ${momentText(end[run])}, takes ${timeText(length)}`));
  if (tasks.bytes[task] > 0) {
    const rate = length > 0 ? `, ${rateText(tasks.bytes[task] / length * 1e9)}` : '';
    tip.appendChild(element('div', bytesText(tasks.bytes[task]) + rate));
  }
  const before = predecessors(model, run);
  before.sort((a, b) => end[b.run] - end[a.run] || Boolean(b.released) - Boolean(a.released));
  listRelations(tip, 'waits for', before, one =>
      `${name(one.run)}: ${one.why}, ended at ${momentText(end[one.run])}` + (one.released ? ', the last' : ''));
  if (heldByStep(model, run) >= 0) tip.appendChild(element('div', `held until step ${heldByStep(model, run)} ended`));
  const behind = successors(model, run);
  behind.sort((a, b) => start[a.run] - start[b.run]);
  listRelations(tip, 'waited for by', behind, one =>
      `${name(one.run)}: ${one.why}, starts at ${momentText(start[one.run])}`);
}

function describePlace(tip, view, place, time) {
  let total = 0;
  const parts = [];
  place.layers.forEach((layer, l) => {
    const i = firstThat(0, layer.time.length, k => layer.time[k] > time) - 1;
    const level = i >= 0 ? layer.level[i] : 0;
    total += level;
    if (level > 0) parts.push(`${byteColour(place.kinds[l])[0]} ${bytesText(level)}`);
  });
  tip.appendChild(element('b', `${place.name} at ${momentText(time)}: ${bytesText(total)}`));
  for (const part of parts) tip.appendChild(element('div', part));
  tip.appendChild(element('div', `peak ${bytesText(place.peak)}, budget ${bytesText(place.budget)}`));
}

function fillTip(view, x, y) {
  const tip = document.getElementById('tip'), row = rowAt(view, y);
  tip.textContent = '';
  if (view.shown >= 0) describeRun(tip, view.model, view.shown);
  else if (row && row.place !== undefined && x >= kGutter && x <= view.width - kRight) {
    describePlace(tip, view, view.model.places[row.place], timeAt(view, x));
  } else {
    tip.hidden = true;
    return;
  }
  tip.hidden = false;
  // Beside the point, within the window.
  const canvas = document.getElementById('timeline').getBoundingClientRect(), box = tip.getBoundingClientRect();
  const right = canvas.left + x + 14, fits = right + box.width <= window.innerWidth;
  tip.style.left = Math.max(0, fits ? right : right - 28 - box.width) + 'px';
  const below = canvas.top + y + 20, above = below - 28 - box.height;
  const top = below + box.height > window.innerHeight && above >= 0 ? above : below;
  tip.style.top = Math.max(0, Math.min(top, window.innerHeight - box.height - 4)) + 'px';
}

function hold(view, run) {
  view.shown = run;
  view.held = run >= 0;
  if (run < 0) return fillTip(view, -1, -1);
  bringIn(view, run);
  const box = boxOf(view, run);
  fillTip(view, box.left, box.y);
}

// The next run whose task's name contains `text`, from `run` on and around.
function findRun(model, text, run) {
  const runs = model.start.length;
  for (let i = 1; i <= runs; ++i) {
    const other = (run + i) % runs;
    if (model.tasks.names[other % model.tasks.count].includes(text)) return other;
  }
  return -1;
}

function fillLegend(model) {
  const add = (id, text, colour) => {
    const entry = element('span'), swatch = element('i');
    swatch.style.background = colour;
    entry.appendChild(swatch);
    entry.appendChild(element('span', text));
    document.getElementById(id).appendChild(entry);
  };
  const {data, tasks} = model, used = new Set(tasks.kind);
  data.kinds.forEach((kind, k) => used.has(k) && add('kinds', kind, kTaskColours[k % kTaskColours.length]));
  const held = [...new Set(data.places.flatMap(place => Object.keys(place.levels)))];
  for (const [id, kinds] of [['homes', held.filter(isAtHome)], ['contents', held.filter(kind => !isAtHome(kind))]]) {
    document.getElementById(id).hidden = kinds.length === 0;
    for (const [name, colour] of kinds.map(byteColour)) add(id, name.replace(' at home', ''), colour);
  }
}

function start() {
  const data = JSON.parse(document.getElementById('data').textContent);
  const view = makeView(readModel(data)), canvas = document.getElementById('timeline');
  let waiting = false, drawnFrom = null, drawnTo = null, drag = null;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    window.requestAnimationFrame(() => {
      waiting = false;
      if (view.from !== drawnFrom || view.to !== drawnTo) drawTimeline(view);
      drawnFrom = view.from;
      drawnTo = view.to;
      drawMarks(view);
    });
  };
  const redrawAll = () => { drawnFrom = null; drawBandwidths(data, theme()); redraw(); };
  const follow = relation => {
    const run = relation && relation.run;
    if (run !== undefined) hold(view, run);
  };

  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      move(view, (event.deltaX || event.deltaY) / 1000);
    } else {
      zoom(view, Math.exp(event.deltaY / 400), timeAt(view, event.offsetX));
    }
    redraw();
  }, {passive: false});
  canvas.addEventListener('pointerdown', event => {
    drag = {x: event.offsetX, y: event.clientY, moved: false};
    canvas.focus({preventScroll: true});
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (drag) {
      const by = drag.x - event.offsetX;
      drag.moved = drag.moved || Math.abs(by) > 3 || Math.abs(drag.y - event.clientY) > 3;
      if (!drag.moved) return;
      move(view, by / (view.width - kGutter - kRight));
      window.scrollBy(0, drag.y - event.clientY);
      drag = {x: event.offsetX, y: event.clientY, moved: true};
    } else if (!view.held) {
      view.shown = runUnder(view, event.offsetX, event.offsetY);
      fillTip(view, event.offsetX, event.offsetY);
    }
    redraw();
  });
  canvas.addEventListener('pointerup', event => {
    if (drag && !drag.moved) hold(view, runUnder(view, event.offsetX, event.offsetY));
    drag = null;
    redraw();
  });
  canvas.addEventListener('pointerleave', () => {
    if (!view.held) hold(view, -1);
    redraw();
  });
  canvas.addEventListener('keydown', event => {
    const middle = (view.from + view.to) / 2;
    const acts = {
      '+': () => zoom(view, 0.7, middle), '=': () => zoom(view, 0.7, middle), '-': () => zoom(view, 1 / 0.7, middle),
      ArrowLeft: () => move(view, -0.15), ArrowRight: () => move(view, 0.15),
      0: () => show(view, 0, view.model.total), Escape: () => hold(view, -1),
      p: () => view.shown >= 0 && follow(predecessors(view.model, view.shown).find(one => one.released)),
      n: () => view.shown >= 0 && follow(successors(view.model, view.shown)
          .sort((a, b) => view.model.start[a.run] - view.model.start[b.run])[0])};
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
    redraw();
  });
  document.getElementById('find').addEventListener('keydown', event => {
    if (event.key !== 'Enter' || !event.target.value) return;
    hold(view, findRun(view.model, event.target.value, view.shown));
    redraw();
  });
  window.addEventListener('resize', redrawAll);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
  showFigures(data);
  fillLegend(view.model);
  redrawAll();
}

start();
