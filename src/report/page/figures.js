// The numbers above the timeline: tables and the curve of bandwidths.

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
  fillTable('places', ['', 'at home', 'peak', 'budget'], data.places.map(p => [
    p.name, bytes(p.at_home), {text: bytesText(p.peak), share: p.budget ? p.peak / p.budget : 0},
    bytesText(p.budget)]));
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
