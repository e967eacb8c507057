"use strict";

// Tables that sort, charts, the explorer.
const data = JSON.parse(document.getElementById("data").textContent);

function sortable(table) {
  const body = table.tBodies[0],
    original = [...body.rows];
  const number = (text) => parseFloat(text.replace(/[,~]/g, ""));
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = make("button", { type: "button", class: "sort" }, ...cell.childNodes);
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const next =
        { ascending: "descending", descending: "none" }[cell.getAttribute("aria-sort")] ?? "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      if (next !== "none") cell.setAttribute("aria-sort", next);
      const key = (row) => row.cells[column].textContent.trim();
      const sign = next === "descending" ? -1 : 1;
      const compare = (a, b) => {
        // numbers by size, then words; what is empty comes last either way
        const [x, y] = [key(a), key(b)],
          [m, n] = column ? [number(x), number(y)] : [NaN, NaN];
        if (!x || !y) return !x - !y;
        if (Number.isNaN(m) !== Number.isNaN(n)) return Number.isNaN(m) - Number.isNaN(n);
        return sign * (Number.isNaN(m) ? x.localeCompare(y, "en", { numeric: true }) : m - n);
      };
      const ordered = next === "none" ? original : [...original].sort(compare);
      body.append(...ordered);
    });
  });
}

for (const table of document.querySelectorAll("main table")) if (table.tHead) sortable(table);
for (const figure of document.querySelectorAll("figure[data-chart]"))
  new Charts.Chart(figure, data.charts[figure.dataset.chart]);
if (data.models.length) window.explorer = new Explorer.View(data.models, data.tasks, data.opening);
