// Draws the texts in the page's data as points, in the colours of their groups: labels or clusters.
const COLOURS = 6;
const SHAPES = 4; // circle, square, triangle, diamond
const STEPS = 65536; // of a coordinate of the map
const CELL = 512; // side of a cell of the grid in which points are looked up
const REACH = 14; // pixels around the pointer in which a point is found
const LISTED = 50;
const MAX_ZOOM = 400;

const { texts } = data;
const lower = texts.map((text) => text.toLowerCase());
const points = new Uint16Array(decode(data.points).buffer);
for (const grouping of data.groupings) grouping.groups = new Uint16Array(decode(grouping.groups).buffer);
let grouping = data.groupings[0];
const chosen = new Set(); // groups that are shown alone, if any
const visible = new Uint8Array(texts.length).fill(1); // texts of those groups that have the words looked for
let numVisible = texts.length;
let current = -1; // the text that is shown
// The map's square is `side` pixels wide before zooming; its corner lies at (left, top).
const view = { zoom: 1, left: 0, top: 0 };
let width = 1, height = 1, side = 1, ratio = 1, drawing = 0, sprites = [], image;

// Numbers of the points in each cell of a grid, from starts[cell] to starts[cell + 1].
const across = STEPS / CELL;
const cellOf = (i) => Math.floor(points[2 * i + 1] / CELL) * across + Math.floor(points[2 * i] / CELL);
const starts = new Uint32Array(across * across + 1);
for (let i = 0; i < texts.length; i++) starts[cellOf(i) + 1]++;
for (let i = 0; i < across * across; i++) starts[i + 1] += starts[i];
const inCells = new Uint32Array(texts.length), filled = starts.slice();
for (let i = 0; i < texts.length; i++) inCells[filled[cellOf(i)]++] = i;

// Points are drawn in a mixed order, so that no group lies above the others.
const mixed = (i) => Math.imul(i, 0x9e3779b1) >>> 0;
const order = Uint32Array.from(texts.keys()).sort((a, b) => mixed(a) - mixed(b));

const choices = element(document.body, "div", { class: "choices" });
const search = element(element(choices, "label", {}, "search"), "input", { type: "search", placeholder: "words" });
const colours = element(element(choices, "label", {}, "colour by"), "select");
for (const { kind } of data.groupings) element(colours, "option", {}, kind);
const panes = element(document.body, "main", { class: "panes" });
const map = element(panes, "section", { class: "card map" });
const canvas = element(map, "canvas", { tabindex: 0, role: "application" });
const context = canvas.getContext("2d");
const tip = element(map, "div", { class: "tip", role: "status" });
const buttons = element(map, "div", { class: "buttons" });
const legend = element(element(panes, "section", { class: "card" }), "ul");
legend.before(element(legend.parentNode, "h2"));
const found = element(document.body, "section", { class: "card found" });
const heading = element(found, "h2", { role: "status" });
const list = element(found, "ul");
const keys = "Keys on the map: arrows go to the next text, + and − zoom, 0 shows all, Shift and arrows move.";
element(document.body, "p", { class: "note" }, `${data.note} ${keys}`);

const x = (i) => view.left + (points[2 * i] / STEPS) * side * view.zoom;
const y = (i) => view.top + (1 - points[2 * i + 1] / STEPS) * side * view.zoom;
const counted = (number) => number.toLocaleString("en");
const groupName = (group) => `${shorten(grouping.names[group], 80)} (${counted(grouping.counts[group])})`;
// Groups beyond the colours and shapes are grey until they are chosen.
const styleOf = (group) => (group < COLOURS * SHAPES || chosen.has(group) ? group % (COLOURS * SHAPES) : -1);

function colour(name, opacity = 1) {
  return `rgb(${getComputedStyle(document.documentElement).getPropertyValue(name)} / ${opacity})`;
}

function paint(made, style, radius) {
  const c = made.getContext("2d"), middle = made.width / 2, shape = Math.floor(style / COLOURS);
  const name = style < 0 ? "--soft" : `--series${style % COLOURS}`;
  c.fillStyle = colour(name, style < 0 ? 0.22 : 0.85);
  c.beginPath();
  if (shape <= 0) c.arc(middle, middle, radius, 0, 7);
  else {
    const corners = shape === 2 ? 3 : 4, turn = shape === 1 ? Math.PI / 4 : -Math.PI / 2;
    for (let i = 0; i < corners; i++) {
      const angle = turn + (2 * Math.PI * i) / corners;
      c.lineTo(middle + 1.25 * radius * Math.cos(angle), middle + 1.25 * radius * Math.sin(angle));
    }
  }
  c.fill();
}

// The pixels of a point of each style: their places from its corner, and their colours. The last one is grey.
function makeSprites(radius) {
  sprites = Array.from({ length: COLOURS * SHAPES + 1 }, (_, style) => {
    const made = document.createElement("canvas");
    made.width = made.height = Math.ceil(2.6 * radius) + 2;
    paint(made, style < COLOURS * SHAPES ? style : -1, radius);
    const image = made.getContext("2d").getImageData(0, 0, made.width, made.width);
    const all = [...new Uint32Array(image.data.buffer).entries()].filter(([, colour]) => colour >>> 24);
    const places = all.map(([at]) => Math.floor(at / made.width) * canvas.width + (at % made.width));
    return { places: Uint32Array.from(places), colours: Uint32Array.from(all, ([, colour]) => colour) };
  });
  Object.assign(sprites, { radius, size: Math.ceil(2.6 * radius) + 2 });
}

// Writes the points' pixels itself: tens of thousands of calls that draw one each would take too long.
function draw() {
  drawing = 0;
  if (!image) return; // before the first `resize`
  const size = Math.min(5, 1.6 + 40 / Math.sqrt(texts.length)) * Math.min(2.2, view.zoom ** 0.3);
  const radius = Math.round(2 * size * ratio) / 2;
  if (sprites.radius !== radius) makeSprites(radius);
  const pixels = new Uint32Array(image.data.buffer).fill(0);
  const half = sprites.size / 2, scale = (side * view.zoom * ratio) / STEPS;
  const left = view.left * ratio - half, bottom = (view.top + side * view.zoom) * ratio - half;
  const right = canvas.width - sprites.size, lowest = canvas.height - sprites.size;
  const styles = grouping.names.map((_, group) => sprites.at(styleOf(group)));
  for (const shown of numVisible < texts.length ? [0, 1] : [1]) {
    for (const i of order) {
      if (visible[i] !== shown) continue;
      const px = Math.round(left + points[2 * i] * scale), py = Math.round(bottom - points[2 * i + 1] * scale);
      if (px < 0 || py < 0 || px > right || py > lowest) continue;
      const { places, colours } = shown ? styles[grouping.groups[i]] : sprites.at(-1);
      for (let k = 0, corner = py * canvas.width + px; k < places.length; k++) {
        const at = corner + places[k];
        // A point's soft edge does not cut into another point.
        if (colours[k] >>> 24 >= pixels[at] >>> 24) pixels[at] = colours[k];
      }
    }
  }
  context.putImageData(image, 0, 0);
  drawNames(colour("--ink"), colour("--card"));
  if (current < 0) return;
  context.strokeStyle = colour("--ink");
  context.lineWidth = 2 * ratio;
  context.beginPath();
  context.arc(x(current) * ratio, y(current) * ratio, radius + 3 * ratio, 0, 7);
  context.stroke();
  placeTip();
}

// Names of groups at their middles, the largest first, where they have room.
function drawNames(ink, card) {
  context.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  context.textAlign = "center";
  Object.assign(context, { lineWidth: 4 * ratio, lineJoin: "round", strokeStyle: card, fillStyle: ink });
  const taken = [];
  grouping.middles.forEach(([middleX, middleY], group) => {
    if (styleOf(group) < 0 || (chosen.size && !chosen.has(group))) return;
    const name = shorten(grouping.names[group], 32), w = context.measureText(name).width / 2, h = 9 * ratio;
    const cx = (view.left + middleX * side * view.zoom) * ratio;
    const cy = (view.top + (1 - middleY) * side * view.zoom) * ratio;
    const nameX = Math.min(Math.max(cx, w + h), canvas.width - w - h);
    if (cx < 0 || cx > canvas.width || cy < 0 || cy > canvas.height) return;
    if (taken.some(([tx, ty, tw]) => Math.abs(tx - nameX) < tw + w && Math.abs(ty - cy) < 2 * h)) return;
    taken.push([nameX, cy, w]);
    context.strokeText(name, nameX, cy);
    context.fillText(name, nameX, cy);
  });
}

const redraw = () => (drawing ||= requestAnimationFrame(draw));

function placeTip() {
  const { offsetWidth: w, offsetHeight: h } = tip;
  const tipX = Math.min(Math.max(x(current) + 12, 8), width - w - 8);
  const above = y(current) - h - 12, below = Math.min(y(current) + 14, height - h - 8);
  tip.style.transform = `translate(${tipX}px, ${Math.max(8, above > 8 ? above : below)}px)`;
}

function show(i) {
  if (i === current) return;
  current = i;
  tip.replaceChildren();
  if (i >= 0) {
    element(tip, "span", {}, texts[i]);
    for (const { names, groups, kind } of data.groupings) {
      element(tip, "small", {}, `${kind}: ${shorten(names[groups[i]], 80)}`);
    }
  }
  redraw();
}

// The nearest visible text within reach of a place in pixels, or -1.
function textAt(px, py) {
  const unit = STEPS / (side * view.zoom);
  const mapX = (px - view.left) * unit, mapY = STEPS - (py - view.top) * unit;
  const cell = (at) => Math.min(Math.max(Math.floor(at / CELL), 0), across - 1);
  const low = cell(mapX - REACH * unit), high = cell(mapX + REACH * unit), last = cell(mapY + REACH * unit);
  let best = -1, least = (REACH * unit) ** 2;
  for (let row = cell(mapY - REACH * unit); row <= last; row++) {
    for (let at = starts[row * across + low]; at < starts[row * across + high + 1]; at++) {
      const i = inCells[at], distance = (points[2 * i] - mapX) ** 2 + (points[2 * i + 1] - mapY) ** 2;
      if (visible[i] && distance < least) [best, least] = [i, distance];
    }
  }
  return best;
}

// The visible text that is nearest in a direction, within 45 degrees of it; the first one from none.
function neighbour(dx, dy) {
  if (current < 0) return visible.indexOf(1);
  let best = current, least = Infinity;
  for (let i = 0; i < texts.length; i++) {
    const along = (x(i) - x(current)) * dx + (y(i) - y(current)) * dy;
    const aside = Math.abs((x(i) - x(current)) * dy) + Math.abs((y(i) - y(current)) * dx);
    if (visible[i] && along > 0 && aside <= along && along + aside < least) [best, least] = [i, along + aside];
  }
  return best;
}

function zoom(factor, px = width / 2, py = height / 2) {
  const next = Math.min(Math.max(view.zoom * factor, 0.5), MAX_ZOOM);
  view.left = px - ((px - view.left) * next) / view.zoom;
  view.top = py - ((py - view.top) * next) / view.zoom;
  view.zoom = next;
  redraw();
}

function move(dx, dy) {
  view.left += dx;
  view.top += dy;
  redraw();
}

function showAll() {
  Object.assign(view, { zoom: 1, left: (width - side) / 2, top: (height - side) / 2 });
  redraw();
}

// Brings a text into the middle part of the map.
function reveal(i) {
  show(i);
  if (i < 0) return;
  if (x(i) < 20 || x(i) > width - 20 || y(i) < 20 || y(i) > height - 20) move(width / 2 - x(i), height / 2 - y(i));
}

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  numVisible = 0;
  for (let i = 0; i < texts.length; i++) {
    visible[i] = (!chosen.size || chosen.has(grouping.groups[i])) && words.every((word) => lower[i].includes(word));
    numVisible += visible[i];
  }
  if (current >= 0 && !visible[current]) show(-1);
  const first = numVisible > LISTED ? ` (the first ${LISTED})` : "";
  heading.textContent = `${counted(numVisible)} of ${counted(texts.length)} texts${first}`;
  list.replaceChildren();
  for (let i = visible.indexOf(1); i >= 0 && list.children.length < LISTED; i = visible.indexOf(1, i + 1)) {
    const button = element(element(list, "li"), "button");
    element(button, "span", {}, texts[i]);
    button.addEventListener("click", () => {
      reveal(i);
      map.scrollIntoView({ block: "nearest" });
    });
  }
  redraw();
}

function drawLegend() {
  legend.replaceChildren();
  const all = element(element(legend, "li"), "button", { "aria-pressed": !chosen.size });
  element(all, "span", {}, `All ${counted(texts.length)} texts`);
  all.addEventListener("click", () => pick());
  grouping.names.forEach((_, group) => {
    const button = element(element(legend, "li"), "button", { "aria-pressed": chosen.has(group) });
    paint(element(button, "canvas", { width: 32, height: 32 }), styleOf(group), 11);
    const words = element(button, "span", {}, groupName(group));
    element(words, "small", {}, grouping.words[group]);
    button.addEventListener("click", () => pick(group));
  });
}

// Adds a group to those shown alone, or removes it; without a group, shows all.
function pick(group) {
  if (group === undefined) chosen.clear();
  else if (!chosen.delete(group)) chosen.add(group);
  const at = [...legend.querySelectorAll("button")].indexOf(document.activeElement);
  drawLegend();
  legend.querySelectorAll("button")[at]?.focus({ preventScroll: true });
  filter();
}

function colourBy(index) {
  grouping = data.groupings[index];
  // The middle is a median, which lies within a group that has outliers.
  const members = grouping.names.map(() => [[], []]);
  grouping.groups.forEach((group, i) => [0, 1].forEach((axis) => members[group][axis].push(points[2 * i + axis])));
  grouping.middles = members.map((axes) => axes.map((values) => values.sort((a, b) => a - b)[values.length >> 1] / STEPS));
  legend.previousSibling.textContent = `${grouping.names.length} ${grouping.kind}s`;
  const summary = grouping.names.slice(0, LISTED).map((_, group) => groupName(group));
  const name = `Map of ${counted(texts.length)} texts by ${grouping.kind}: ${summary.join(", ")}`;
  canvas.setAttribute("aria-label", `${name}. Arrow keys go from text to text.`);
  pick();
}

const places = new Map(); // of the fingers or the mouse button that are down
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  places.set(event.pointerId, [event.offsetX, event.offsetY]);
});
canvas.addEventListener("pointermove", (event) => {
  const at = [event.offsetX, event.offsetY], before = places.get(event.pointerId);
  if (!before) return show(textAt(...at));
  const other = [...places].find(([id]) => id !== event.pointerId)?.[1];
  places.set(event.pointerId, at);
  if (!other) return move(at[0] - before[0], at[1] - before[1]);
  const apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]) || 1;
  zoom(apart(at) / apart(before), ...other);
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => places.delete(event.pointerId));
canvas.addEventListener("click", (event) => show(textAt(event.offsetX, event.offsetY)));
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
}, { passive: false });
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const KEYS = { "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: showAll, Escape: () => show(-1) };
canvas.addEventListener("keydown", (event) => {
  const arrow = ARROWS[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || (!arrow && !KEYS[event.key])) return;
  event.preventDefault();
  if (!arrow) KEYS[event.key]();
  else if (event.shiftKey) move(-60 * arrow[0], -60 * arrow[1]);
  else reveal(neighbour(...arrow));
});
for (const [sign, name, run] of [["+", "Zoom in", KEYS["+"]], ["−", "Zoom out", KEYS["-"]], ["⤢", "Show all", showAll]]) {
  element(buttons, "button", { title: name, "aria-label": name }, sign).addEventListener("click", run);
}
search.addEventListener("input", filter);
colours.addEventListener("change", () => colourBy(colours.selectedIndex));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  sprites = [];
  drawLegend();
  redraw();
});
// Fits the canvas to the page, and keeps the middle of what it shows.
function resize() {
  if (!map.clientWidth) return; // a frame that is not laid out yet, or hidden
  const before = [width, height, side];
  ratio = Math.min(devicePixelRatio, 2);
  [width, height] = [map.clientWidth, map.clientHeight];
  side = Math.max(Math.min(width, height) - 40, 1);
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  image = context.createImageData(canvas.width, canvas.height);
  sprites = [];
  view.left = width / 2 + ((view.left - before[0] / 2) * side) / before[2];
  view.top = height / 2 + ((view.top - before[1] / 2) * side) / before[2];
  redraw();
}

new ResizeObserver(resize).observe(map);
colourBy(0);
