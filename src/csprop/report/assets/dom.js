"use strict";

// Elements of the page, and numbers as text. Text is always added as text, never as markup.
function make(tag, attributes = {}, ...children) {
  const drawn = ["svg", "g", "path", "circle", "line", "rect", "text", "title", "marker", "defs"];
  const element = drawn.includes(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

// A table that is scrolled where it is too wide, with a name for screen readers.
function tabulated(name, headings, body) {
  const cells = headings.map((heading) => make("th", { scope: "col" }, heading));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...cells)), body);
  return make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": name }, table);
}

const count = (number) => number.toLocaleString("en");

// An accuracy; 100% only if nothing was wrong, 0% only if nothing was right.
function percent(value) {
  if (value === 0 || value === 1) return `${100 * value}%`;
  return `${Math.min(99.9, Math.max(0.1, 100 * value)).toFixed(1)}%`;
}

// Four digits at least, so that what is not quite 1 does not read as 1.
const short = (value) =>
  Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 12 });

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
