// Draws the attention in the page's data: a small map of every layer and head, and the chosen one with its words.
const FAINT = 0.02; // weights below are not drawn as lines
const NAMED = 5; // words that the line below the drawing names
const VIEWS = ["lines", "map"];

const sentences = data;
for (const sentence of sentences) {
  sentence.maps = decode(sentence.maps);
}
// What is chosen, and the word whose attention is shown alone (-1: of all words).
const chosen = { sentence: 0, layer: 0, head: 0, view: 0 };
let word = -1;

const choices = element(document.body, "div", { class: "choices" });
const panes = element(document.body, "main", { class: "panes" });
const overview = element(panes, "section", { class: "card" });
element(overview, "h2", {}, "All layers (down) and heads (across)");
const heads = element(overview, "div", { class: "heads" });
const detail = element(panes, "section", { class: "card" });
const heading = element(detail, "h2");
const drawing = element(detail, "div", { class: "drawing", tabindex: 0 });
const status = element(detail, "output");
const selects = {};
for (const name of Object.keys(chosen)) {
  selects[name] = element(element(choices, "label", {}, name), "select");
  selects[name].addEventListener("change", () => choose({ [name]: selects[name].selectedIndex }));
}

const current = () => sentences[chosen.sentence];
const percent = (weight) => `${Math.round(100 * weight)} %`;

// The weights [words, words] of a head, from 0 to 255.
function mapOf(layer, head) {
  const { words, heads, maps } = current();
  const size = words.length ** 2;
  return maps.subarray((layer * heads + head) * size, (layer * heads + head + 1) * size);
}

function weight(from, to) {
  return mapOf(chosen.layer, chosen.head)[from * current().words.length + to] / 255;
}

// Takes a choice over, as far as the sentence has it, and draws what it changes.
function choose(changes) {
  Object.assign(chosen, changes);
  const limit = (name, count) => {
    chosen[name] = Math.min(Math.max(chosen[name] || 0, 0), count - 1);
  };
  limit("sentence", sentences.length);
  limit("layer", current().layers);
  limit("head", current().heads);
  limit("view", VIEWS.length);
  word = -1;
  const numbers = (count) => Array.from({ length: count }, (_, i) => String(i));
  const options = {
    sentence: sentences.map(({ words }) => words.join(" ")),
    layer: numbers(current().layers),
    head: numbers(current().heads),
    view: VIEWS,
  };
  for (const [name, texts] of Object.entries(options)) {
    selects[name].replaceChildren();
    for (const text of texts) element(selects[name], "option", {}, text);
    selects[name].selectedIndex = chosen[name];
  }
  const { sentence, layer, head } = chosen;
  // Within a notebook's frame there is no address to change.
  if (location.protocol !== "about:") {
    history.replaceState(null, "", `#sentence=${sentence}&layer=${layer}&head=${head}`);
  }
  drawOverview();
  draw();
}

function drawOverview() {
  const { words, layers, heads: count } = current();
  const n = words.length;
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim().split(/\s+/);
  heads.replaceChildren();
  heads.style.gridTemplateColumns = `1.4em repeat(${count}, minmax(0, 34px))`;
  element(heads, "span");
  for (let head = 0; head < count; head++) element(heads, "span", {}, String(head));
  for (let layer = 0; layer < layers; layer++) {
    element(heads, "span", {}, String(layer));
    for (let head = 0; head < count; head++) {
      const button = element(heads, "button", {
        title: `layer ${layer}, head ${head}`,
        "aria-label": `layer ${layer}, head ${head}`,
        "aria-pressed": layer === chosen.layer && head === chosen.head,
      });
      button.addEventListener("click", () => choose({ layer, head }));
      const canvas = element(button, "canvas", { width: n, height: n });
      const context = canvas.getContext("2d");
      const image = context.createImageData(n, n);
      mapOf(layer, head).forEach((value, i) => image.data.set([...colour, value], 4 * i));
      context.putImageData(image, 0, 0);
    }
  }
}

function draw() {
  heading.textContent = `Layer ${chosen.layer}, head ${chosen.head}`;
  drawing.replaceChildren();
  [drawLines, drawMap][chosen.view](current().words);
  tell();
}

// A word that shows its own attention alone: under the pointer, with the keyboard, at a touch.
function addWord(svg, i, attributes, most) {
  const made = element(svg, "text", { tabindex: 0, ...attributes }, shorten(current().words[i], most));
  element(made, "title", {}, current().words[i]);
  for (const event of ["mouseenter", "focus", "click"]) made.addEventListener(event, () => show(i));
  made.addEventListener("mouseleave", () => show(-1));
}

let show = () => {};

function drawLines(words) {
  const step = 24, width = 340, left = 116, right = 224;
  const height = step * (words.length + 1);
  const svg = element(drawing, "svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", style: "max-width:460px" });
  const y = (i) => step * (i + 1.5);
  element(svg, "text", { class: "faint", x: left, y: 16, "text-anchor": "end" }, "from");
  element(svg, "text", { class: "faint", x: right, y: 16 }, "to");
  const lines = [], shares = [];
  for (let from = 0; from < words.length; from++) {
    for (let to = 0; to < words.length; to++) {
      const value = weight(from, to);
      if (value < FAINT) continue;
      const ends = { x1: left + 5, x2: right - 5, y1: y(from), y2: y(to) };
      lines.push([from, element(svg, "line", { ...ends, "stroke-opacity": value, "stroke-width": 1 + 2 * value })]);
    }
  }
  words.forEach((text, i) => {
    addWord(svg, i, { x: left, y: y(i) + 5, "text-anchor": "end" }, 14);
    const target = element(svg, "text", { x: right, y: y(i) + 5 }, shorten(text, 14));
    element(target, "title", {}, text);
    shares.push(target);
  });
  show = (i) => {
    word = i;
    for (const [from, line] of lines) line.style.display = i < 0 || i === from ? "" : "none";
    shares.forEach((target, to) => {
      target.classList.toggle("faint", i >= 0 && weight(i, to) < FAINT);
    });
    tell();
  };
}

function drawMap(words) {
  const cell = 18, side = 104;
  const size = side + cell * words.length + 2;
  const svg = element(drawing, "svg", { viewBox: `0 0 ${size} ${size}`, width: size, height: size });
  words.forEach((text, i) => {
    const middle = side + cell * (i + 0.5);
    addWord(svg, i, { x: side - 6, y: middle + 5, "text-anchor": "end" }, 13);
    const turned = `translate(${middle + 5} ${side - 6}) rotate(-90)`;
    element(element(svg, "text", { transform: turned }, shorten(text, 13)), "title", {}, text);
  });
  const end = cell * words.length;
  element(svg, "rect", { class: "frame", x: side, y: side, width: end, height: end });
  for (let from = 0; from < words.length; from++) {
    for (let to = 0; to < words.length; to++) {
      const place = { x: side + cell * to, y: side + cell * from, width: cell, height: cell };
      const made = element(svg, "rect", { ...place, "fill-opacity": weight(from, to) });
      element(made, "title", {}, `${words[from]} → ${words[to]}: ${percent(weight(from, to))}`);
      made.addEventListener("mouseenter", () => show(from));
      made.addEventListener("click", () => show(from));
    }
  }
  show = (i) => {
    word = i;
    tell();
  };
}

// Says in words what the chosen word attends to.
function tell() {
  const { words } = current();
  if (word < 0) {
    status.textContent = "Point at a word, or touch it, to see what it attends to.";
    return;
  }
  const weights = words.map((text, to) => [weight(word, to), text]).sort((a, b) => b[0] - a[0]);
  const most = weights.slice(0, NAMED).map(([value, text]) => `${text} ${percent(value)}`);
  status.textContent = `${words[word]} → ${most.join(", ")}`;
}

function fromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  choose(Object.fromEntries([...asked].filter(([name]) => name in chosen).map(([name, n]) => [name, parseInt(n, 10)])));
}

window.addEventListener("hashchange", fromAddress);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawOverview);
fromAddress();
