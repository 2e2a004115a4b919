// What the timeline's page asks of a browser, for test_timeline_page.py: elements without a layout
// and canvases that record. Unknown elements, methods and properties of a canvas are errors.
'use strict';

class Drawing {
  constructor() { Object.assign(this, {fills: [], strokes: [], texts: [], lines: []}); }
}

function makeContext() {
  let drawing = new Drawing(), at = null;
  const finite = numbers => {
    if (!numbers.every(Number.isFinite)) throw new Error('not finite: ' + numbers);
    return numbers;
  };
  const context = {
    fillStyle: '', strokeStyle: '', lineWidth: 1, font: '', textAlign: '', globalAlpha: 1,
    setTransform(...matrix) { finite(matrix); },
    clearRect(...box) { finite(box); },
    fillRect(...box) { drawing.fills.push([context.fillStyle, context.globalAlpha, ...finite(box)]); },
    strokeRect(...box) { drawing.strokes.push([context.strokeStyle, context.lineWidth, ...finite(box)]); },
    fillText(text, x, y) { finite([x, y]); drawing.texts.push([text, x, y]); },
    beginPath() { at = null; },
    moveTo(...point) { at = finite(point); },
    lineTo(...point) { drawing.lines.push([...at, ...finite(point)]); at = point; },
    stroke() {},
    take() { const taken = drawing; drawing = new Drawing(); return taken; },
  };
  return Object.seal(context);
}

class Element {
  constructor(tag, width) {
    Object.assign(this, {tag, children: [], style: {}, className: '', hidden: false, listeners: {}, own: '', value: '',
                         box: {left: 0, top: 0, width, height: 100}, context: null});
  }
  get textContent() { return this.own + this.children.map(child => child.textContent).join(''); }
  set textContent(text) { this.own = String(text); this.children = []; }
  appendChild(child) { this.children.push(child); return child; }
  addEventListener(type, listener) { (this.listeners[type] = this.listeners[type] || []).push(listener); }
  getBoundingClientRect() { return this.box; }
  getContext(kind) {
    if (kind !== '2d') throw new Error('a context of kind ' + kind);
    return this.context = this.context || makeContext();
  }
  focus() {}
  setPointerCapture() {}
  lines() { return this.children.length ? this.children.flatMap(child => child.lines()) : [this.textContent]; }
}

const elements = {}, frames = [];
const page = {dark: false};
const window = new Element('window', 0);
Object.assign(window, {
  devicePixelRatio: 2,
  innerWidth: 1000,
  innerHeight: 800,
  requestAnimationFrame(act) { frames.push(act); },
  matchMedia() { return {matches: page.dark, addEventListener() {}}; },
  scrollBy() {},
});
const document = {
  title: '',
  createElement: tag => new Element(tag, 0),
  getElementById: id => {
    if (!elements[id]) throw new Error('no element has the id ' + id);
    return elements[id];
  },
};

function openPage({ids, data, dark, width}) {
  page.dark = dark;
  for (const id of ids) elements[id] = new Element(id, width);
  elements.data.textContent = data;
}

// Calls the listeners and then the frames that they asked for.
function fire(name, type, fields) {
  const target = name === 'window' ? window : document.getElementById(name);
  if (!target.listeners[type]) throw new Error(`nobody listens to ${type} of ${name}`);
  const event = {target, shiftKey: false, ctrlKey: false, metaKey: false, clientY: 0, pointerId: 1,
                 preventDefault() {}, ...fields};
  for (const listener of target.listeners[type]) listener(event);
}

function takeDrawing(id) {
  while (frames.length) frames.shift()();
  return document.getElementById(id).getContext('2d').take();
}

function textOf(id) { return document.getElementById(id).lines().join('\n'); }
