// A chart: one curve over steps, points beside it, and a line at the step under the cursor.

const kChartHeight = 190, kChartLeft = 62, kChartBottom = 20, kChartTop = 8, kChartRight = 10;
const kChartColours = {
  light: {front: '#1257a8', soft: '#5b6675', line: '#d8dde4', point: '#c02030', at: '#98a3b3'},
  dark: {front: '#6fb4ff', soft: '#98a3b3', line: '#2c3540', point: '#ff6b76', at: '#5b6675'}};

function numberText(value) {
  return value === 0 ? '0' : Math.abs(value) < 1e-2 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

// The range of what is drawn, a little wider; from 0 where `base` is 0.
function rangeOf(values, base) {
  let low = base === undefined ? Infinity : base, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(high > low)) high = low + (Math.abs(low) || 1);
  const more = 0.04 * (high - low);
  return {low: base === undefined ? low - more : low, high: high + more};
}

// Where a chart's numbers lie in pixels of the page.
function chartScale(width, steps, values, base) {
  const range = rangeOf(values, base), first = steps[0], last = Math.max(first + 1, steps[steps.length - 1]);
  return {
    range,
    x: step => kChartLeft + (width - kChartLeft - kChartRight) * (step - first) / (last - first),
    y: value => kChartTop + (kChartHeight - kChartTop - kChartBottom) * (range.high - value) / (range.high - range.low)};
}

function drawGrid(ctx, width, scale, steps, colours) {
  ctx.font = '11px system-ui, sans-serif';
  ctx.strokeStyle = colours.line;
  ctx.fillStyle = colours.soft;
  ctx.lineWidth = 1;
  ctx.textAlign = 'right';
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const value = scale.range.low + part * (scale.range.high - scale.range.low);
    ctx.beginPath();
    ctx.moveTo(kChartLeft, scale.y(value));
    ctx.lineTo(width - kChartRight, scale.y(value));
    ctx.stroke();
    ctx.fillText(numberText(value), kChartLeft - 5, scale.y(value) + 4);
  }
  ctx.fillText('step ' + steps[steps.length - 1], width - kChartRight, kChartHeight - 5);
  ctx.textAlign = 'left';
  ctx.fillText(String(steps[0]), kChartLeft, kChartHeight - 5);
}

// Draws {id, steps, values, points: [[step, value]], base}; `at` is a position in steps, or -1.
function drawChart(chart, at) {
  const canvas = document.getElementById(chart.id), ratio = window.devicePixelRatio || 1;
  const width = canvas.getBoundingClientRect().width || 420, {steps, values} = chart;
  const colours = kChartColours[window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(kChartHeight * ratio);
  const ctx = canvas.getContext('2d');
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, kChartHeight);
  if (steps.length === 0) return;
  const scale = chartScale(width, steps, values.concat(chart.points.map(point => point[1])), chart.base);
  drawGrid(ctx, width, scale, steps, colours);
  ctx.strokeStyle = colours.front;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.moveTo(scale.x(steps[0]), scale.y(values[0]));
  for (let i = 1; i < steps.length; ++i) ctx.lineTo(scale.x(steps[i]), scale.y(values[i]));
  ctx.stroke();
  ctx.fillStyle = colours.point;
  for (const [step, value] of chart.points) ctx.fillRect(scale.x(step) - 2.5, scale.y(value) - 2.5, 5, 5);
  if (at < 0) return;
  ctx.fillStyle = colours.at;
  ctx.fillRect(scale.x(steps[at]), kChartTop, 1, kChartHeight - kChartTop - kChartBottom);
}

// The position of the step nearest to a pixel.
function positionAt(chart, x) {
  const canvas = document.getElementById(chart.id), {steps} = chart;
  const scale = chartScale(canvas.getBoundingClientRect().width || 420, steps, [0, 1]);
  let best = -1;
  for (let i = 0; i < steps.length; ++i) {
    if (best < 0 || Math.abs(scale.x(steps[i]) - x) < Math.abs(scale.x(steps[best]) - x)) best = i;
  }
  return best;
}
