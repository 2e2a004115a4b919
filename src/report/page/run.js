// The page of a run: five charts over the same steps, and tables.

function chartsOf(data) {
  const {curves} = data, chart = (id, base, points) =>
      ({id, steps: curves.step, values: curves[id], base, points: points || []});
  return [chart('loss', undefined, data.evaluations), chart('grad_norm', 0), chart('lr', 0),
          chart('tokens_per_second', 0), chart('stall', 0)];
}

function evaluationText(evaluations) {
  if (evaluations.length === 0) return '';
  const last = evaluations[evaluations.length - 1];
  return `, eval loss ${last[1].toFixed(4)} after step ${last[0]}`;
}

function stepText(curves, at) {
  return `step ${curves.step[at]}: loss ${curves.loss[at].toFixed(4)}, norm ${numberText(curves.grad_norm[at])}, ` +
      `lr ${numberText(curves.lr[at])}, ${curves.tokens_per_second[at].toFixed(0)} tok/s, ` +
      `stall ${percentText(curves.stall[at])}`;
}

function showTables(data) {
  const {curves} = data, last = curves.step.length - 1;
  document.title = `${data.name}: ferry run`;
  document.getElementById('title').textContent = data.name;
  document.getElementById('summary').textContent = last < 0 ? 'no step has ended yet' :
      `${data.steps} steps, loss ${curves.loss[0].toFixed(4)} to ${curves.loss[last].toFixed(4)}` +
      evaluationText(data.evaluations) + (data.comparison.length ? '' : '; the run has not ended');
  fillTable('comparison', ['', 'predicted', 'measured', 'ratio'], data.comparison.map(row => [
    row.what, row.predicted, row.measured, row.ratio === undefined ? '' : row.ratio.toFixed(3)]));
  fillTable('facts', ['', ''], data.facts);
  if (!data.timeline) return;
  const link = element('a', "the plan's timeline");
  link.href = data.timeline;
  document.getElementById('plan').appendChild(link);
}

function start() {
  const data = JSON.parse(document.getElementById('data').textContent), charts = chartsOf(data);
  let at = -1;
  const draw = () => charts.forEach(chart => drawChart(chart, at));
  const show = position => {
    at = position;
    document.getElementById('at').textContent = at < 0 ? '' : stepText(data.curves, at);
    window.requestAnimationFrame(draw);
  };
  for (const chart of charts) {
    const canvas = document.getElementById(chart.id);
    canvas.addEventListener('pointermove', event => show(positionAt(chart, event.offsetX)));
    canvas.addEventListener('pointerleave', () => show(-1));
  }
  window.addEventListener('resize', draw);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  showTables(data);
  draw();
}

start();
