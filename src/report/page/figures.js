// The numbers above the timeline: tables, the curve of bandwidths, and how amounts are written.

function timeText(nanoseconds) {
  const units = [[1e9, 's'], [1e6, 'ms'], [1e3, 'us']];
  for (const [size, unit] of units) {
    const number = nanoseconds / size;
    if (number >= 1) return (number < 1e5 ? number.toPrecision(5) : number.toFixed(0)) + ' ' + unit;
  }
  return nanoseconds.toFixed(0) + ' ns';
}
// A moment, to the microsecond however late it is.
function momentText(nanoseconds) {
  if (nanoseconds >= 1e9) return (nanoseconds / 1e9).toFixed(6) + ' s';
  return nanoseconds >= 1e6 ? (nanoseconds / 1e6).toFixed(3) + ' ms' : timeText(nanoseconds);
}
// Without the zeros behind the last digit that counts.
function roundTimeText(nanoseconds) {
  const [number, unit] = timeText(nanoseconds).split(' ');
  return nanoseconds === 0 ? '0' : `${Number(number)} ${unit}`;
}
function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit + 1 < units.length) { bytes /= 1024; ++unit; }
  return bytes.toFixed(unit ? 1 : 0) + ' ' + units[unit];
}
function rateText(bytesPerSecond) {
  const units = [[1e9, 'GB/s'], [1e6, 'MB/s'], [1e3, 'kB/s']];
  for (const [size, unit] of units) {
    if (bytesPerSecond >= size) return (bytesPerSecond / size).toFixed(2) + ' ' + unit;
  }
  return bytesPerSecond.toFixed(1) + ' B/s';
}
function percentText(share) { return (100 * share).toFixed(1) + ' %'; }

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Rows of texts; a cell {text, share} gets a bar of that share of its width. Without rows the
// table's heading goes too.
function fillTable(id, heads, rows) {
  const table = document.getElementById(id);
  document.getElementById(id + '-figure').hidden = rows.length === 0;
  const head = element('tr');
  for (const text of heads) head.appendChild(element('th', text));
  table.appendChild(head);
  for (const row of rows) {
    const line = element('tr');
    for (const value of row) {
      const cell = element('td', value.text === undefined ? value : value.text);
      if (value.share !== undefined) {
        const end = (100 * Math.min(1, value.share)).toFixed(1) + '%';
        cell.style.background = `linear-gradient(90deg, var(--bar) ${end}, transparent ${end})`;
      }
      line.appendChild(cell);
    }
    table.appendChild(line);
  }
}

function showFigures(data) {
  const used = share => ({text: percentText(share), share});
  const bytes = count => count ? bytesText(count) : '';
  document.title = `${data.strategy}: ferry timeline`;
  document.getElementById('title').textContent =
      `${data.strategy}: ${timeText(data.step_seconds * 1e9)} per step, mean bubble ${percentText(data.bubble)}`;
  document.getElementById('summary').textContent =
      `${data.mode}, ${data.micro_batches} micro-batches of ${data.micro_batch_size} x ${data.sequence} tokens; ` +
      `first step ${timeText(data.first_step_seconds * 1e9)}; busiest ${data.busiest} ` +
      `${timeText(data.busiest_seconds * 1e9)}; critical path ${timeText(data.critical_path_seconds * 1e9)}`;
  fillTable('resources', ['', 'used', 'busy', 'bubble', 'bytes'], data.resources.map(r => [
    r.name, used(r.utilisation), timeText(r.busy_seconds * 1e9),
    r.bubble === undefined ? '' : percentText(r.bubble), bytes(r.bytes)]));
  fillTable('pools', ['', 'used', 'bytes'], data.pools.map(p => [p.name, used(p.utilisation), bytes(p.bytes)]));
  fillTable('places', ['', 'peak', 'budget'], data.places.map(p => [
    p.name, {text: bytesText(p.peak), share: p.budget ? p.peak / p.budget : 0}, bytesText(p.budget)]));
  fillTable('drives', ['', 'read', 'written'], data.places.filter(p => p.kind === 'drive').map(p => [
    p.name, bytesText(p.read), bytesText(p.written)]));
}

// The bandwidth that the faster half of the bytes exceeds or reaches.
function medianBandwidth(curve) {
  const point = curve.find(([, share]) => share >= 0.5);
  return point ? point[0] : 0;
}

function drawBandwidths(data, colours) {
  const canvas = document.getElementById('bandwidth'), curve = data.bandwidth_cdf;
  const width = 340, height = 190, left = 38, bottom = 22, ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const ctx = canvas.getContext('2d');
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.font = '11px system-ui, sans-serif';
  const most = Math.max(1, ...curve.map(([rate]) => rate)) * 1.05;
  const x = rate => left + (width - left - 8) * rate / most;
  const y = share => 6 + (height - bottom - 6) * (1 - share);
  ctx.strokeStyle = colours.line;
  ctx.fillStyle = colours.soft;
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    ctx.beginPath();
    ctx.moveTo(left, y(share));
    ctx.lineTo(width - 8, y(share));
    ctx.stroke();
    ctx.textAlign = 'right';
    ctx.fillText((100 * share).toFixed(0) + ' %', left - 4, y(share) + 4);
  }
  ctx.textAlign = 'left';
  ctx.fillText('0', left, height - 6);
  ctx.textAlign = 'right';
  ctx.fillText(rateText(most), width - 8, height - 6);
  ctx.strokeStyle = colours.front;
  ctx.beginPath();
  ctx.moveTo(x(0), y(0));
  let before = 0;
  for (const [rate, share] of curve) {
    ctx.lineTo(x(rate), y(before));
    ctx.lineTo(x(rate), y(share));
    before = share;
  }
  ctx.lineTo(width - 8, y(before));
  ctx.stroke();
  document.getElementById('half').textContent = curve.length === 0 ? 'nothing is moved' :
      `half of ${bytesText(data.bytes_moved)} per step move at ${rateText(medianBandwidth(curve))} or faster`;
}
