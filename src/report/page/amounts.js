// How amounts are written, and tables of them: what every page begins with.

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
