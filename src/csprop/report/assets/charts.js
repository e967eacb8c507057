"use strict";

// Line charts that can be hovered, zoomed and read as a table. Charts with the same `link` share their
// cursor and their part of the x axis.
const Charts = (() => {
  const HEIGHT = 240,
    LEFT = 52,
    RIGHT = 14,
    TOP = 12,
    BOTTOM = 40;
  const FEW = 16; // points of a line at most to be drawn one by one
  const links = new Map();

  const forward = (axis, value) => (axis.log ? Math.log10(value) : value);
  const backward = (axis, value) => (axis.log ? 10 ** value : value);
  const shown = (axis, value) => (axis.percent ? percent(value) : short(value));
  // A line's point nearest to an x that it reaches.
  function nearest(points, x) {
    if (!points.length || x < points[0][0] || x > points.at(-1)[0]) return null;
    return points.reduce((best, point) =>
      Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best,
    );
  }

  function ticks(axis, low, high, most) {
    if (axis.log) {
      const decades = Math.max(1, Math.ceil((high - low) / most));
      const first = Math.floor(low / decades) * decades,
        found = [];
      const between = decades > 1 || high - low > most / 2 ? [1] : [1, 2, 5];
      for (let power = first; power <= high; power += decades)
        found.push(...between.map((digit) => digit * 10 ** power));
      const inside = found.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
      return inside.length > 1 ? inside : ticks({ whole: axis.whole }, 10 ** low, 10 ** high, most);
    }
    const rough = (high - low) / most || 1,
      power = 10 ** Math.floor(Math.log10(rough));
    let step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    if (axis.whole) step = Math.max(1, step);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high + step * 1e-6; k++) found.push(k * step || 0); // never −0
    return found;
  }

  function range(axis, values, pad) {
    const known = values.filter((value) => Number.isFinite(value) && (!axis.log || value > 0));
    let low = forward(axis, Math.min(...known)),
      high = forward(axis, Math.max(...known));
    if (!known.length) [low, high] = [0, 1];
    if (axis.percent) [low, high] = [Math.min(low, 0), 1];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const room = pad * (high - low);
    return [low - room, high + room];
  }

  class Chart {
    constructor(figure, spec) {
      Object.assign(this, { figure, spec });
      this.points = spec.series.flatMap((series) => series.points);
      this.xs = [...new Set(this.points.map(([x]) => x))].sort((a, b) => a - b);
      this.whole = range(
        spec.x,
        this.points.map(([x]) => x),
        0.02,
      );
      this.view = this.whole;
      this.cursor = this.from = null;
      this.build();
      if (spec.link) links.set(spec.link, [...(links.get(spec.link) ?? []), this]);
      new ResizeObserver(() => this.draw()).observe(this.holder);
    }

    get linked() {
      return this.spec.link ? links.get(this.spec.link) : [this];
    }

    build() {
      const { spec } = this;
      this.holder = make("div", {
        class: spec.series.length > 4 ? "plot many" : "plot",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "chart",
        "aria-label":
          `${spec.title}: ${spec.series.length} lines. Arrow keys move along them, plus and ` +
          "minus zoom, 0 shows all. The numbers are in the table below.",
      });
      this.readout = make("p", { class: "readout" });
      const button = (text, name, act) =>
        make("button", { type: "button", "aria-label": `${spec.title}: ${name}`, onclick: act }, text);
      const tools = make(
        "div",
        { class: "tools" },
        button("+", "zoom in", () => this.zoom(0.5)),
        button("−", "zoom out", () => this.zoom(2)),
        button("All", "show all", () => this.look(this.whole)),
      );
      this.figure.prepend(make("div", { class: "over" }, ...this.figure.children, tools));
      this.figure.append(this.holder, this.readout, this.legend(), this.table());
      this.holder.addEventListener("keydown", (event) => this.key(event));
      this.holder.addEventListener("pointerdown", (event) => this.grab(event));
      this.holder.addEventListener("pointermove", (event) => this.hover(event));
      this.holder.addEventListener("pointerup", (event) => this.release(event));
      this.holder.addEventListener("pointercancel", () => {
        this.drop();
        this.point(null);
      });
      this.holder.addEventListener("pointerleave", () => {
        if (this.from === null) this.point(null);
      });
      this.holder.addEventListener("dblclick", () => this.look(this.whole));
    }

    legend() {
      const groups = new Map(this.spec.series.map((series) => [series.group, series]));
      return make(
        "ul",
        { class: "legend" },
        ...[...groups].map(([name, series]) =>
          make(
            "li",
            {},
            make(
              "svg",
              { width: 26, height: 10, "aria-hidden": "true" },
              make("line", { x1: 0, x2: 26, y1: 5, y2: 5, class: `line c${series.colour}` }),
            ),
            name,
          ),
        ),
        ...[...new Map(this.spec.marks.map((mark) => [mark.label, mark])).values()].map((mark) =>
          make(
            "li",
            {},
            make("svg", { width: 12, height: 12, "aria-hidden": "true" }, this.shape(mark, 6, 6)),
            mark.label,
          ),
        ),
      );
    }

    // The numbers, made when they are first asked for; of a thinned chart where no line was thinned.
    table() {
      const { spec } = this;
      const details = make("details", {}, make("summary", {}, "The numbers"));
      details.addEventListener("toggle", () => {
        if (details.querySelector("table")) return;
        const columns = spec.series.map((series) => new Map(series.points));
        const xs = this.xs.filter((x) =>
          spec.series.every(({ points }, i) => columns[i].has(x) || !nearest(points, x)),
        );
        const rows = xs.map((x) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, count(x)),
            ...columns.map((column) =>
              make("td", {}, column.has(x) ? shown(spec.y, column.get(x)) : ""),
            ),
          ),
        );
        const headings = [spec.x.label, ...spec.series.map((series) => series.name)];
        details.append(tabulated(`${spec.title}: the numbers`, headings, make("tbody", {}, ...rows)));
      });
      return details;
    }

    shape(mark, x, y) {
      const attributes = { class: `mark c${mark.colour}` };
      if (mark.shape === "spike")
        return make("path", { ...attributes, d: `M${x - 5},${y - 5}h10l-5,9z` });
      if (mark.shape === "ring")
        return make("circle", { ...attributes, class: `${attributes.class} ring`, cx: x, cy: y, r: 4 });
      return make("circle", { ...attributes, cx: x, cy: y, r: 4 });
    }

    draw() {
      const { spec } = this,
        width = Math.max(200, this.holder.clientWidth);
      const inside = this.points.filter(
        ([x]) => forward(spec.x, x) >= this.view[0] && forward(spec.x, x) <= this.view[1],
      );
      const tall = range(
        spec.y,
        (inside.length ? inside : this.points).map(([, y]) => y),
        0.05,
      );
      const place =
        (axis, [low, high], from, to) =>
        (value) =>
          from + ((forward(axis, value) - low) / (high - low)) * (to - from);
      this.across = place(spec.x, this.view, LEFT, width - RIGHT);
      this.up = place(spec.y, tall, HEIGHT - BOTTOM, TOP);
      const svg = make("svg", {
        width,
        height: HEIGHT,
        viewBox: `0 0 ${width} ${HEIGHT}`,
        "aria-hidden": "true",
      });
      for (const value of ticks(spec.y, tall[0], tall[1], 5)) {
        const y = this.up(value);
        if (y < TOP - 1 || y > HEIGHT - BOTTOM + 1) continue;
        svg.append(
          make("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
          make("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, shown(spec.y, value)),
        );
      }
      for (const value of ticks(spec.x, this.view[0], this.view[1], width / 80)) {
        const x = this.across(value);
        svg.append(
          make("line", { class: "grid", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
          make(
            "text",
            { x, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" },
            count(Math.round(value * 100) / 100 || 0),
          ),
        );
      }
      svg.append(
        make(
          "text",
          { x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" },
          spec.x.label,
        ),
      );
      const lines = make("svg", {
        x: LEFT,
        y: 0,
        width: width - LEFT - RIGHT,
        height: HEIGHT,
        viewBox: `${LEFT} 0 ${width - LEFT - RIGHT} ${HEIGHT}`,
      });
      for (const series of spec.series) {
        const drawn = series.points.filter(
          ([x, y]) => (!spec.y.log || y > 0) && (!spec.x.log || x > 0),
        );
        const path = drawn
          .map(([x, y], i) => `${i ? "L" : "M"}${this.across(x).toFixed(1)},${this.up(y).toFixed(1)}`)
          .join("");
        lines.append(make("path", { class: `line c${series.colour}`, d: path }));
        if (drawn.length > FEW) continue;
        for (const [x, y] of drawn)
          lines.append(
            make("circle", {
              class: `mark c${series.colour}`,
              cx: this.across(x),
              cy: this.up(y),
              r: 2.5,
            }),
          );
      }
      for (const mark of spec.marks)
        lines.append(this.shape(mark, this.across(mark.x), this.up(mark.y)));
      this.pointer = make("line", {
        class: "pointer",
        y1: TOP,
        y2: HEIGHT - BOTTOM,
        visibility: "hidden",
      });
      this.band = make("rect", {
        class: "band",
        y: TOP,
        height: HEIGHT - TOP - BOTTOM,
        visibility: "hidden",
      });
      lines.append(this.band, this.pointer);
      svg.append(lines);
      this.holder.replaceChildren(svg);
      this.show();
    }

    look([low, high]) {
      const least = (this.whole[1] - this.whole[0]) / 1000;
      if (high - low < least) return;
      for (const chart of this.linked) {
        chart.view = [Math.max(low, chart.whole[0]), Math.min(high, chart.whole[1])];
        if (chart.view[1] - chart.view[0] < least) chart.view = chart.whole;
        chart.draw();
      }
    }

    zoom(factor) {
      const [low, high] = this.view,
        at = this.cursor === null ? NaN : forward(this.spec.x, this.cursor);
      const still = at >= low && at <= high ? at : (low + high) / 2;
      this.look([still - (still - low) * factor, still + (high - still) * factor]);
    }

    // The number of the x nearest to this one, of those that any line has.
    near(x) {
      const after = this.xs.findIndex((each) => each >= x),
        last = this.xs.length - 1;
      if (after <= 0) return after < 0 ? last : 0;
      return x - this.xs[after - 1] < this.xs[after] - x ? after - 1 : after;
    }

    at(event) {
      const box = this.holder.getBoundingClientRect();
      const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      return backward(this.spec.x, this.view[0] + clamp(part, 0, 1) * (this.view[1] - this.view[0]));
    }

    point(x) {
      for (const chart of this.linked) {
        chart.cursor = x;
        chart.show();
      }
    }

    show() {
      const { spec, cursor } = this;
      if (!this.pointer) return;
      this.pointer.setAttribute("visibility", cursor === null ? "hidden" : "visible");
      if (cursor === null) {
        this.readout.textContent = "";
        return;
      }
      this.pointer.setAttribute("x1", this.across(cursor));
      this.pointer.setAttribute("x2", this.across(cursor));
      const values = spec.series
        .map((series) => [series.name, nearest(series.points, cursor)?.[1] ?? null])
        .filter(([, value]) => value !== null);
      const listed = values
        .slice(0, 6)
        .map(([name, value]) => `${name}: ${shown(spec.y, value)}`)
        .join("; ");
      const more = values.length > 6 ? `; and ${values.length - 6} more` : "";
      this.readout.textContent = `${spec.x.label} ${count(cursor)}; ${listed}${more}`;
    }

    hover(event) {
      const x = this.at(event);
      this.readout.removeAttribute("aria-live");
      if (this.from !== null) {
        const [left, right] = [this.from, x].map((each) => this.across(each)).sort((a, b) => a - b);
        this.band.setAttribute("x", left);
        this.band.setAttribute("width", right - left);
        this.band.setAttribute("visibility", "visible");
      }
      this.point(this.xs[this.near(x)]);
    }

    grab(event) {
      if (event.pointerType === "mouse" && event.button) return;
      this.from = this.at(event);
      this.holder.setPointerCapture?.(event.pointerId);
    }

    release(event) {
      if (this.from === null) return;
      const ends = [forward(this.spec.x, this.from), forward(this.spec.x, this.at(event))].sort(
        (a, b) => a - b,
      );
      this.drop();
      if (ends[1] - ends[0] > 0.02 * (this.view[1] - this.view[0])) this.look(ends);
    }

    drop() {
      this.from = null;
      this.band.setAttribute("visibility", "hidden");
    }

    // To an x, and the view with it if it is outside.
    move(x) {
      const [low, high] = this.view,
        at = forward(this.spec.x, x),
        half = (high - low) / 2;
      if (at < low || at > high) {
        const centre = clamp(at, this.whole[0] + half, this.whole[1] - half);
        this.look([centre - half, centre + half]);
      }
      this.readout.setAttribute("aria-live", "polite"); // spoken where keys ask for it, not under a mouse
      this.point(x);
    }

    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const here = this.cursor === null ? -1 : this.near(this.cursor),
        last = this.xs.length - 1;
      const moves = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: last };
      if (event.key in moves) this.move(this.xs[clamp(moves[event.key], 0, last)]);
      else if (["+", "="].includes(event.key)) this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else if (["0", "Escape"].includes(event.key)) this.look(this.whole);
      else return;
      event.preventDefault();
    }
  }

  return { Chart };
})();
