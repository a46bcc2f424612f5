"use strict";
// What the scripts of interactive pages share.
const SVG = "http://www.w3.org/2000/svg";
const data = JSON.parse(document.getElementById("data").textContent);

function decode(base64) {
  return Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0));
}

function element(parent, name, attributes = {}, text = "") {
  const isDrawn = ["svg", "text", "line", "rect", "title"].includes(name);
  const made = isDrawn ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return parent.appendChild(made);
}

function shorten(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

