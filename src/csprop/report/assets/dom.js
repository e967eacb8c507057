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

// A row of a table: the text of its heading, and for each cell its content or several.
const row = (heading, ...cells) =>
  make("tr", {}, make("th", { scope: "row" }, heading), ...cells.map((cell) => make("td", {}, ...[cell].flat())));

// A table, with a name for screen readers; in a narrow window its rows are cards. A long one is scrolled.
function tabulated(name, headings, body) {
  const cells = headings.map((heading) => make("th", { scope: "col" }, heading));
  const kind = headings.length > 5 ? "cards" : "few";
  const table = make("table", { class: kind }, make("thead", {}, make("tr", {}, ...cells)), body);
  for (const { cells } of body.rows)
    [...cells].forEach((cell, column) => cell.setAttribute("data-label", headings[column]));
  return make("div", { class: "wide fit", tabindex: 0, role: "region", "aria-label": name }, table);
}

// A table that is folded away, and made when it is first opened: `listed` returns its headings and rows.
function folded(summary, name, listed) {
  const details = make("details", {}, make("summary", {}, summary));
  const open = () => {
    const { headings, rows } = listed();
    details.append(tabulated(name, headings, make("tbody", {}, ...rows)));
  };
  details.addEventListener("toggle", open, { once: true });
  return details;
}

// A piece of a line, as the key of a model or a move.
const swatch = (colour, kind = `line c${colour}`) =>
  make(
    "svg",
    { class: "swatch", width: 26, height: 10, "aria-hidden": "true" },
    make("line", { x1: 0, x2: 26, y1: 5, y2: 5, class: kind }),
  );

// A proof in a few words, to stand beside the name of a model.
const badge = ([words, kind]) => make("span", { class: `badge ${kind}` }, words);

// The width of a bold text at a size of 1.
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

// Four digits at least: 0.9996 must not read as 1.
const short = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 12 });

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
