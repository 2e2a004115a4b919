// The drawing: a row per resource, under them bytes over time of each place, on one time axis.

const kTaskColours = ['#c9a227', '#3f8fd6', '#e07b39', '#7d8fa3', '#b565c4', '#4fa866',
                      '#c2475f', '#2fa7a0', '#8b6fd1', '#9a8a54'];
// What rests at a place is as dark as what passes is light.
const kByteColours = {
  'home W': ['weights at home', '#1c4680'], 'home S': ['optimizer state at home', '#27613a'],
  'home G': ['gradients at home', '#8a4511'], 'home R': ['rounded gradients at home', '#a8641f'],
  W: ['weights', '#6aa3ec'], S: ['optimizer state', '#6cc184'], G: ['gradients', '#f0995a'],
  A: ['activations', '#a05bb5'], dA: ['activation gradients', '#d46a8c'], K: ['kept for backward', '#5f4b8b'],
  R: ['rounded gradients', '#f7c187'], workspace: ['workspace', '#8c8f73'], X: ['tokens', '#b89b2a'],
  N: ['norms', '#66777f'], L: ['losses', '#7f6657'], C: ['clip scale', '#556b5f'],
  O: ['originals of early updates', '#a3c9b0']};
function isAtHome(kind) { return kind.startsWith('home '); }
function byteColour(kind) { return kByteColours[kind] || [kind, '#777777']; }
const kThemes = {
  light: {front: '#1c2430', soft: '#5b6675', line: '#d8dde4', row: '#f4f6f8',
          before: '#1257a8', released: '#d01f2e', behind: '#177a3c', label: '#101820', budget: '#c02030'},
  dark: {front: '#e4e8ee', soft: '#98a3b3', line: '#2c3540', row: '#1a2028',
         before: '#6fb4ff', released: '#ff5a66', behind: '#5fd68a', label: '#06090d', budget: '#ff6b76'}};
const kGutter = 150, kAxis = 22, kRow = 18, kBar = 14, kGap = 8, kPlace = 72, kRight = 10;

function theme() {
  return kThemes[window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'];
}

// Where every row lies: resources by place, then the places that hold something.
function layOut(model) {
  const rows = [], order = model.data.resources.map((_, r) => r);
  order.sort((a, b) => model.data.resources[a].place - model.data.resources[b].place || a - b);
  let y = kAxis, place = null;
  for (const resource of order) {
    if (place !== null && place !== model.data.resources[resource].place) y += kGap;
    place = model.data.resources[resource].place;
    rows.push({y, height: kRow, resource});
    y += kRow;
  }
  for (let p = 0; p < model.places.length; ++p) {
    if (model.places[p].kinds.length === 0) continue;
    y += kGap;
    rows.push({y, height: kPlace, place: p});
    y += kPlace;
  }
  return {rows, rowOf: new Map(rows.filter(r => r.resource !== undefined).map(r => [r.resource, r])),
          height: y + kGap};
}

// What is shown: the window [from, to) in nanoseconds on `width` pixels.
function makeView(model) {
  return {model, layout: layOut(model), from: 0, to: model.total, width: 1000, shown: -1, held: false};
}
function xOf(view, time) {
  return kGutter + (time - view.from) / (view.to - view.from) * (view.width - kGutter - kRight);
}
function timeAt(view, x) {
  return view.from + (x - kGutter) / (view.width - kGutter - kRight) * (view.to - view.from);
}

// The runs of a resource in the window: positions [first, past).
function runsInView(view, resource) {
  const {model} = view, length = queueLength(model, resource);
  const first = firstThat(0, length, i => model.end[runAt(model, resource, i)] >= view.from);
  const past = firstThat(first, length, i => model.start[runAt(model, resource, i)] > view.to);
  return {first, past};
}

// Runs narrower than a pixel are summed up per pixel: the colour of the kind with most of it, as
// solid as the pixel is busy.
function drawRuns(ctx, view, row, colours) {
  const {model} = view, {tasks} = model, {first, past} = runsInView(view, row.resource);
  const y = row.y + (kRow - kBar) / 2, length = past - first;
  const busy = new Float64Array(kTaskColours.length);
  let pixel = -1, sum = 0;
  const flush = () => {
    if (sum > 0) {
      ctx.globalAlpha = Math.min(1, Math.max(0.15, sum));
      ctx.fillStyle = kTaskColours[busy.indexOf(Math.max(...busy))];
      ctx.fillRect(pixel, y, 1, kBar);
      ctx.globalAlpha = 1;
    }
    busy.fill(0);
    sum = 0;
  };
  ctx.font = '11px system-ui, sans-serif';
  ctx.textAlign = 'left';
  for (let i = 0; i < length; ++i) {
    const run = runAt(model, row.resource, first + i), task = run % tasks.count;
    const left = Math.max(kGutter, xOf(view, model.start[run]));
    const right = Math.min(view.width - kRight, xOf(view, model.end[run]));
    const colour = tasks.kind[task] % kTaskColours.length;
    if (right - left < 1) {
      if (Math.floor(left) !== pixel) flush();
      pixel = Math.floor(left);
      busy[colour] += right - left;
      sum += right - left;
      continue;
    }
    flush();
    ctx.fillStyle = kTaskColours[colour];
    ctx.fillRect(left, y, right - left, kBar);
    if (right - left > 7 * tasks.names[task].length) {
      ctx.fillStyle = colours.label;
      ctx.fillText(tasks.names[task], left + 3, y + 11);
    }
  }
  flush();
}

// For every pixel column the moment of most bytes in it: `best` its sum, `parts` its layers.
function columnsOf(view, place) {
  const width = Math.max(1, Math.ceil(view.width - kRight - kGutter)), kinds = place.layers.length;
  const best = new Float64Array(width).fill(-1), parts = new Float64Array(width * kinds);
  const now = new Float64Array(kinds);
  let total = 0;
  place.layers.forEach((layer, l) => {
    const i = firstThat(0, layer.time.length, k => layer.time[k] > view.from) - 1;
    if (i >= 0) total += now[l] = layer.level[i];
  });
  const column = time => Math.min(width - 1, Math.max(0, Math.floor(xOf(view, time) - kGutter)));
  const note = (from, to) => {
    for (let c = column(from); c <= column(to); ++c) {
      if (total <= best[c]) continue;
      best[c] = total;
      parts.set(now, c * kinds);
    }
  };
  let time = view.from;
  for (let i = firstThat(0, place.time.length, k => place.time[k] > view.from);
       i < place.time.length && place.time[i] <= view.to; ++i) {
    if (place.time[i] > time) note(time, place.time[i]);
    time = place.time[i];
    total += place.level[i] - now[place.layerOf[i]];
    now[place.layerOf[i]] = place.level[i];
  }
  note(time, view.to);
  return {width, best, parts, kinds};
}

// The top of a place's scale: its budget, unless that is far above what it ever holds.
function scaleOf(place) {
  return place.budget > 0 && place.budget <= 3 * place.peak ? Math.max(place.budget, place.peak) * 1.06
                                                             : Math.max(1, place.peak) * 1.2;
}

function drawPlace(ctx, view, row, colours) {
  const place = view.model.places[row.place], scale = scaleOf(place);
  const {width, best, parts, kinds} = columnsOf(view, place);
  const bottom = row.y + kPlace;
  for (let l = 0; l < kinds; ++l) {
    ctx.fillStyle = byteColour(place.kinds[l])[1];
    for (let c = 0; c < width;) {
      let below = 0;
      for (let k = 0; k < l; ++k) below += parts[c * kinds + k];
      const from = c, level = parts[c * kinds + l], sum = best[c];
      const same = i => {
        if (best[i] !== sum || parts[i * kinds + l] !== level) return false;
        let other = 0;
        for (let k = 0; k < l; ++k) other += parts[i * kinds + k];
        return other === below;
      };
      while (c < width && same(c)) ++c;
      if (level > 0) {
        ctx.fillRect(kGutter + from, bottom - (below + level) / scale * kPlace, c - from, level / scale * kPlace);
      }
    }
  }
  if (place.budget > 0 && place.budget <= scale) {
    const y = bottom - place.budget / scale * kPlace;
    line(ctx, kGutter, y, view.width - kRight, y, colours.budget, 1);
  }
}

function line(ctx, x0, y0, x1, y1, colour, width) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

function drawAxis(ctx, view, colours) {
  const span = view.to - view.from, wanted = span / Math.max(2, (view.width - kGutter) / 110);
  const power = Math.max(1, 10 ** Math.floor(Math.log10(wanted)));
  const step = [1, 2, 5, 10].map(f => f * power).find(size => size >= wanted);
  ctx.font = '11px system-ui, sans-serif';
  ctx.textAlign = 'center';
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    line(ctx, xOf(view, time), kAxis - 4, xOf(view, time), view.layout.height, colours.line, 1);
    ctx.fillStyle = colours.soft;
    ctx.fillText(roundTimeText(time), xOf(view, time), 12);
  }
  view.model.stepEnd.forEach(end => {
    if (end >= view.from && end <= view.to) {
      line(ctx, xOf(view, end), kAxis - 8, xOf(view, end), view.layout.height, colours.soft, 2);
    }
  });
}

function drawLabels(ctx, view, colours) {
  const {data} = view.model;
  ctx.font = '12px system-ui, sans-serif';
  ctx.textAlign = 'right';
  for (const row of view.layout.rows) {
    ctx.fillStyle = colours.front;
    const place = data.places[row.place];
    ctx.fillText(place ? place.name : data.resources[row.resource].name, kGutter - 8, row.y + 13, kGutter - 12);
    if (!place) continue;
    ctx.fillStyle = colours.soft;
    ctx.fillText(`peak ${bytesText(place.peak)}`, kGutter - 8, row.y + 29);
    if (place.budget > 0) ctx.fillText(`budget ${bytesText(place.budget)}`, kGutter - 8, row.y + 44);
  }
}

// Where a run is drawn, clipped to the window; null outside.
function boxOf(view, run) {
  const {model} = view;
  if (model.end[run] < view.from || model.start[run] > view.to) return null;
  const row = view.layout.rowOf.get(model.tasks.resource[run % model.tasks.count]);
  const left = Math.max(kGutter, xOf(view, model.start[run]));
  const right = Math.min(view.width - kRight, xOf(view, model.end[run]));
  return {left, right: Math.max(right, left + 2), y: row.y + (kRow - kBar) / 2};
}

// The run under the cursor and what it hangs together with.
function drawRelations(ctx, view, colours) {
  const {model} = view, own = boxOf(view, view.shown);
  const mark = (run, colour, width) => {
    const box = boxOf(view, run);
    if (!box) return null;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.strokeRect(box.left, box.y, box.right - box.left, kBar);
    return box;
  };
  for (const {run} of successors(model, view.shown)) {
    const box = mark(run, colours.behind, 2);
    if (box && own) line(ctx, own.right, own.y + kBar / 2, box.left, box.y + kBar / 2, colours.behind, 1);
  }
  for (const {run, released} of predecessors(model, view.shown)) {
    const colour = released ? colours.released : colours.before;
    const box = mark(run, colour, released ? 3 : 2);
    if (box && own) line(ctx, box.right, box.y + kBar / 2, own.left, own.y + kBar / 2, colour, released ? 2 : 1);
  }
  mark(view.shown, colours.front, 2);
}

// A canvas of the timeline's size, empty, to be drawn on in pixels of the page.
function cleared(view, canvas) {
  const ratio = window.devicePixelRatio || 1, {height} = view.layout;
  canvas.style.height = height + 'px';
  canvas.width = Math.round(view.width * ratio);
  canvas.height = Math.round(height * ratio);
  const ctx = canvas.getContext('2d');
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}

// Everything but the marks, which come and go with the cursor.
function drawTimeline(view) {
  const canvas = document.getElementById('timeline'), colours = theme(), {rows} = view.layout;
  view.width = canvas.getBoundingClientRect().width || view.width;
  const ctx = cleared(view, canvas);
  ctx.fillStyle = colours.row;
  for (const row of rows) ctx.fillRect(kGutter, row.y + 1, view.width - kGutter - kRight, row.height - 2);
  drawAxis(ctx, view, colours);
  for (const row of rows) (row.place === undefined ? drawRuns : drawPlace)(ctx, view, row, colours);
  drawLabels(ctx, view, colours);
}

function drawMarks(view) {
  const ctx = cleared(view, document.getElementById('marks'));
  if (view.shown >= 0) drawRelations(ctx, view, theme());
}
