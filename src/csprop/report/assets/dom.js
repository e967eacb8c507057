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

// A table, with a name for screen readers; in a narrow window its rows are cards. A long one is scrolled.
function tabulated(name, headings, body) {
  const cells = headings.map((heading) => make("th", { scope: "col" }, heading));
  const kind = headings.length > 5 ? "cards" : "few";
  const table = make("table", { class: kind }, make("thead", {}, make("tr", {}, ...cells)), body);
  for (const row of body.rows)
    [...row.cells].forEach((cell, column) => cell.setAttribute("data-label", headings[column]));
  return make("div", { class: "wide fit", tabindex: 0, role: "region", "aria-label": name }, table);
}

// The key of a model: a piece of its line in the charts.
const swatch = (colour) =>
  make(
    "svg",
    { class: "swatch", width: 26, height: 10, "aria-hidden": "true" },
    make("line", { x1: 0, x2: 26, y1: 5, y2: 5, class: `line c${colour}` }),
  );

// What is proven of a model, to stand beside its name.
const badge = ([words, kind]) => make("span", { class: `badge ${kind}` }, words);

// How wide a text is at a size of 1, if it is bold.
const measured = (() => {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "600 100px system-ui, sans-serif";
  return (text) => pen.measureText(text).width / 100;
})();

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
