// The plan and its simulated steps, from the text in the page. A run is a task of one step, numbered
// step * tasks + task. Times are whole nanoseconds.

// The numbers of src/report/packed_numbers.h.
function unpack(text) {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const digitOf = new Uint8Array(128);
  for (let d = 0; d < 64; ++d) digitOf[digits.charCodeAt(d)] = d;
  let count = 0;
  for (let i = 0; i < text.length; ++i) if (digitOf[text.charCodeAt(i)] < 32) ++count;
  const numbers = new Float64Array(count);
  let at = 0, number = 0, unit = 1;
  for (let i = 0; i < text.length; ++i) {
    const digit = digitOf[text.charCodeAt(i)];
    number += (digit & 31) * unit;
    unit *= 32;
    if (digit >= 32) continue;
    const size = Math.floor(number / 2);
    numbers[at++] = number % 2 ? -size : size;
    number = 0;
    unit = 1;
  }
  return numbers;
}

// For every item the entries listed for it, packed one after the other.
function grouped(items, owners) {
  const first = new Int32Array(items + 1);
  for (const owner of owners) ++first[owner + 1];
  for (let i = 0; i < items; ++i) first[i + 1] += first[i];
  const next = first.slice(), entry = new Int32Array(owners.length);
  for (let e = 0; e < owners.length; ++e) entry[next[owners[e]]++] = e;
  return {first, entry};
}

function readTasks(data) {
  const names = data.names.split('\n'), count = names.length;
  const kind = new Uint8Array(count), resource = new Int32Array(count), bytes = new Float64Array(count);
  const later = [], earlier = [], back = [];  // by edge; back: steps between the two
  const numbers = unpack(data.tasks);
  let at = 0;
  for (let task = 0; task < count; ++task) {
    kind[task] = numbers[at++];
    resource[task] = numbers[at++];
    bytes[task] = numbers[at++];
    for (let steps = 0; steps < 2; ++steps) {
      for (let left = numbers[at++]; left > 0; --left) {
        later.push(task);
        earlier.push(task - numbers[at++]);
        back.push(steps);
      }
    }
  }
  const queues = grouped(data.resources.length, resource);  // entries are tasks, in the plan's order
  const place = new Int32Array(count);  // of a task in queues.entry
  queues.entry.forEach((task, i) => { place[task] = i; });
  return {names, count, kind, resource, bytes, later, earlier, back, queues, place,
          before: grouped(count, later), behind: grouped(count, earlier)};
}

// A staircase as times and the levels from then on.
function readLevels(text) {
  const numbers = unpack(text), time = new Float64Array(numbers.length / 2);
  const level = new Float64Array(time.length);
  for (let i = 0, at = 0, now = 0; i < time.length; ++i) {
    time[i] = at += numbers[2 * i];
    level[i] = now += numbers[2 * i + 1];
  }
  return {time, level};
}

// A place's staircases and, in the order of time, which of them changes.
function readPlace(place) {
  const kinds = Object.keys(place.levels), layers = kinds.map(kind => readLevels(place.levels[kind]));
  const count = layers.reduce((sum, layer) => sum + layer.time.length, 0);
  const time = new Float64Array(count), layerOf = new Uint8Array(count), level = new Float64Array(count);
  const next = layers.map(() => 0);
  for (let i = 0; i < count; ++i) {
    let first = -1;
    for (let l = 0; l < layers.length; ++l) {
      if (next[l] === layers[l].time.length) continue;
      if (first < 0 || layers[l].time[next[l]] < layers[first].time[next[first]]) first = l;
    }
    time[i] = layers[first].time[next[first]];
    level[i] = layers[first].level[next[first]++];
    layerOf[i] = first;
  }
  return {...place, kinds, layers, time, layerOf, level};
}

function readModel(data) {
  const tasks = readTasks(data), steps = data.steps, runs = steps * tasks.count;
  const start = new Float64Array(runs), end = new Float64Array(runs), stepEnd = new Float64Array(steps);
  const queueEnd = new Float64Array(data.resources.length), numbers = unpack(data.spans);
  for (let run = 0; run < runs; ++run) {
    const task = run % tasks.count, resource = tasks.resource[task], step = (run - task) / tasks.count;
    start[run] = queueEnd[resource] + numbers[2 * run];
    end[run] = queueEnd[resource] = start[run] + numbers[2 * run + 1];
    stepEnd[step] = Math.max(stepEnd[step], end[run]);
  }
  const total = Math.max(1, ...stepEnd);
  return {data, tasks, steps, start, end, stepEnd, total, places: data.places.map(readPlace)};
}

// The first index in [low, high) for which `holds`; holds may change from false to true only once.
function firstThat(low, high, holds) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle; else low = middle + 1;
  }
  return low;
}

// The runs of a resource in the order of time, by position from 0 to queueLength().
function queueLength(model, resource) {
  const {first} = model.tasks.queues;
  return (first[resource + 1] - first[resource]) * model.steps;
}
function runAt(model, resource, position) {
  const {first, entry} = model.tasks.queues, length = first[resource + 1] - first[resource];
  const step = Math.floor(position / length);
  return step * model.tasks.count + entry[first[resource] + position - step * length];
}
function positionOf(model, run) {
  const {tasks} = model, task = run % tasks.count, resource = tasks.resource[task];
  const first = tasks.queues.first[resource], length = tasks.queues.first[resource + 1] - first;
  return (run - task) / tasks.count * length + tasks.place[task] - first;
}

// What `run` had to wait for, each {run, why}; `released` marks the one that ended last.
function predecessors(model, run) {
  const {tasks} = model, task = run % tasks.count, found = [];
  const add = (earlier, why) => {
    if (earlier >= 0 && !found.some(one => one.run === earlier)) found.push({run: earlier, why});
  };
  for (let e = tasks.before.first[task]; e < tasks.before.first[task + 1]; ++e) {
    const edge = tasks.before.entry[e];
    add(run - task + tasks.earlier[edge] - tasks.back[edge] * tasks.count,
        tasks.back[edge] ? 'after, previous step' : 'after');
  }
  const position = positionOf(model, run);
  if (position > 0) add(runAt(model, tasks.resource[task], position - 1), 'queue');
  let last = null;
  for (const one of found) if (!last || model.end[one.run] > model.end[last.run]) last = one;
  if (last) last.released = true;
  return found;
}

// What waited for `run`, each {run, why}.
function successors(model, run) {
  const {tasks} = model, task = run % tasks.count, found = [];
  const add = (later, why) => {
    if (later < model.start.length && !found.some(one => one.run === later)) found.push({run: later, why});
  };
  for (let e = tasks.behind.first[task]; e < tasks.behind.first[task + 1]; ++e) {
    const edge = tasks.behind.entry[e];
    add(run - task + tasks.later[edge] + tasks.back[edge] * tasks.count,
        tasks.back[edge] ? 'next step' : 'after');
  }
  const resource = tasks.resource[task], position = positionOf(model, run) + 1;
  if (position < queueLength(model, resource)) add(runAt(model, resource, position), 'queue');
  return found;
}

// A driver has two steps in flight: a run that starts when the step before the previous one ends
// was held by that.
function heldByStep(model, run) {
  const step = Math.floor(run / model.tasks.count) - 2;
  return step >= 0 && Math.abs(model.start[run] - model.stepEnd[step]) <= 1 ? step : -1;
}
