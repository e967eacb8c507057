"use strict";

// Tables that sort, charts, the explorer.
const data = JSON.parse(document.getElementById("data").textContent);

function sortable(table) {
  const body = table.tBodies[0], original = [...body.rows];
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = make("button", { type: "button", class: "sort" }, ...cell.childNodes);
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: "none" }[cell.getAttribute("aria-sort")] ?? "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      if (next !== "none") cell.setAttribute("aria-sort", next);
      const key = (row) => row.cells[column].textContent.trim();
      const number = (text) => parseFloat(text.replace(/[,~]/g, ""));
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)], [m, n] = [number(x), number(y)];
        return Number.isNaN(m) || Number.isNaN(n) ? Number.isNaN(m) - Number.isNaN(n) || x.localeCompare(y) : m - n;
      };
      const sign = next === "descending" ? -1 : 1;
      const ordered = next === "none" ? original : [...original].sort((a, b) => sign * compare(a, b));
      body.append(...ordered);
    });
  });
}

for (const table of document.querySelectorAll("main table")) sortable(table);
for (const figure of document.querySelectorAll("figure[data-chart]")) new Charts.Chart(figure, data.charts[figure.dataset.chart]);
if (data.models.length) window.explorer = new Explorer.View(data.models, data.tasks);
