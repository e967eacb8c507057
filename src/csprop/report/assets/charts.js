"use strict";

// Line charts that can be hovered, zoomed and read as a table. Charts with the same `link` share their
// cursor and their part of the x axis.
const Charts = (() => {
  const { LEFT, RIGHT, shape } = Plot;
  const { forward, backward, shown, nearest, range } = Scales;
  const links = new Map(),
    COLUMNS = 3;

  class Chart {
    constructor(figure, spec) {
      Object.assign(this, { figure, spec });
      this.points = spec.series.flatMap((series) => series.points);
      this.xs = [...new Set(this.points.map(([x]) => x))].sort((a, b) => a - b);
      this.whole = range(spec.x, this.xs, 0.02);
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
        onkeydown: (event) => this.key(event),
        onpointerdown: (event) => this.grab(event),
        onpointermove: (event) => this.hover(event),
        onpointerup: (event) => this.release(event),
        onpointercancel: () => {
          this.drop();
          this.point(null);
        },
        onpointerleave: () => this.from === null && this.point(null),
        ondblclick: () => this.look(this.whole),
      });
      this.readout = make("p", { class: "readout" });
      const button = (text, name, onclick) =>
        make("button", { type: "button", "aria-label": `${spec.title}: ${name}`, onclick }, text);
      const tools = make(
        "div",
        { class: "tools" },
        button("+", "zoom in", () => this.zoom(0.5)),
        button("−", "zoom out", () => this.zoom(2)),
        button("All", "show all", () => this.look(this.whole)),
      );
      this.figure.prepend(make("div", { class: "over" }, ...this.figure.children, tools));
      this.figure.append(this.holder, this.readout, this.legend(), this.table());
    }

    legend() {
      const groups = new Map(this.spec.series.map(({ group, colour }) => [group, swatch(colour)]));
      for (const mark of this.spec.marks)
        groups.set(mark.label, make("svg", { width: 12, height: 12, "aria-hidden": "true" }, shape(mark, 6, 6)));
      return make("ul", { class: "legend" }, ...[...groups].map(([name, key]) => make("li", {}, key, name)));
    }

    // The numbers; of thinned lines, at the epochs that all have. Many lines have a row each for every x, which
    // keeps the table narrow.
    table() {
      const { spec } = this;
      return folded("The numbers", `${spec.title}: the numbers`, () => {
        const columns = spec.series.map(({ points }) => new Map(points));
        const xs = this.xs.filter((x) =>
          spec.series.every(({ points }, i) => columns[i].has(x) || !nearest(points, x)),
        );
        const value = (x, i) => (columns[i].has(x) ? shown(spec.y, columns[i].get(x)) : "");
        if (columns.length <= COLUMNS)
          return {
            headings: [spec.x.label, ...spec.series.map(({ name }) => name)],
            rows: xs.map((x) => row(count(x), ...columns.map((_, i) => value(x, i)))),
          };
        return {
          headings: [spec.x.label, "model", spec.title.toLowerCase()],
          rows: xs.flatMap((x) =>
            spec.series.flatMap(({ name }, i) => (columns[i].has(x) ? [row(count(x), name, value(x, i))] : [])),
          ),
        };
      });
    }

    draw() {
      Object.assign(this, Plot.draw(this, Math.max(200, this.holder.clientWidth))); // svg, across, pointer, band
      this.holder.replaceChildren(this.svg);
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

    // The index of the nearest x at which any line has a point.
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
      this.readout.textContent = "";
      if (cursor === null) return;
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
      const ends = [this.from, this.at(event)].map((x) => forward(this.spec.x, x)).sort((a, b) => a - b);
      this.drop();
      if (ends[1] - ends[0] > 0.02 * (this.view[1] - this.view[0])) this.look(ends);
    }

    drop() {
      this.from = null;
      this.band.setAttribute("visibility", "hidden");
    }

    // Move the cursor to an x, and the view along with it if it would be outside.
    move(x) {
      const [low, high] = this.view,
        at = forward(this.spec.x, x),
        half = (high - low) / 2;
      if (at < low || at > high) {
        const centre = clamp(at, this.whole[0] + half, this.whole[1] - half);
        this.look([centre - half, centre + half]);
      }
      this.readout.setAttribute("aria-live", "polite"); // read aloud after a key, not under a mouse
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
