"use strict";

// The counters of a machine: for each a line of whole numbers, on which a mark moves. The machine sees a count
// only within its window, which is shaded.
const Counters = (() => {
  const WIDE = 340, // of a drawing, whose numbers are at least ROOM apart
    SIDE = 22,
    LEVEL = 34,
    ROOM = 26,
    LEAST = 4, // numbers to see on both sides of 0
    TICKS = 80;
  const plain = (number) => count(number).replace("-", "−");

  // The numbers that are written below a line: all of them, or every second, fifth, tenth, …
  function written(low, high) {
    const most = (WIDE - 2 * SIDE) / Math.max(ROOM, 7 * plain(low).length, 7 * plain(high).length);
    let step = 1;
    for (let i = 0; (high - low) / step > most; i++) step *= [2, 2.5, 2][i % 3];
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
  }

  // One counter.
  class Line {
    constructor(name, added, window, number) {
      Object.assign(this, { name, window, number });
      this.back = make("g");
      this.mark = make("circle", { class: "tally", cy: LEVEL, r: 7 });
      this.value = make("text", { class: "count", y: LEVEL - 14 });
      this.caption = make("figcaption");
      this.svg = make("svg", { viewBox: `0 0 ${WIDE} 66`, role: "img" }, this.back, this.mark, this.value);
      const heading = make("p", {}, make("b", {}, `Counter ${name}`), `: ${added || "nothing is added"}`);
      this.element = make("figure", { class: "counter" }, heading, this.svg, this.caption);
    }

    // Draw the line for the counts of all steps of a sequence.
    span(steps) {
      const { window, number } = this;
      let [low, high] = [-Math.max(LEAST, window + 1), Math.max(LEAST, window + 1)];
      for (const { counts } of steps) {
        low = Math.min(low, counts[number]);
        high = Math.max(high, counts[number]);
      }
      this.at = (value) => SIDE + ((value - low) / (high - low)) * (WIDE - 2 * SIDE);
      const tall = (value, from, to, attributes) =>
        make("line", { x1: this.at(value), x2: this.at(value), y1: from, y2: to, ...attributes });
      const numbers = written(low, high),
        all = Array.from({ length: Math.min(TICKS, high - low) + 1 }, (_, i) => low + i);
      const ticks = high - low < TICKS ? all : numbers;
      const edges = window ? [-window, window] : [];
      this.back.replaceChildren(
        make("rect", {
          class: "window",
          x: this.at(-window),
          width: Math.max(1, this.at(window) - this.at(-window)),
          y: LEVEL - 14,
          height: 28,
        }),
        make("line", { class: "axis", x1: 2, x2: WIDE - 2, y1: LEVEL, y2: LEVEL }),
        ...ticks.map((value) => tall(value, LEVEL - 3, LEVEL + 3, { class: "axis" })),
        ...edges.map((value) => tall(value, LEVEL - 14, LEVEL + 14, { class: "edge" })),
        ...numbers.map((value) =>
          make("text", { x: this.at(value), y: LEVEL + 28 }, plain(value)),
        ),
      );
    }

    // Show the count after step t; on the way from another step, `part` of the way there.
    show(steps, t, from, part) {
      const [before, now] = [from, t].map((step) => steps[step].counts[this.number]);
      const x = this.at(before + part * (now - before));
      this.mark.setAttribute("cx", x.toFixed(2));
      this.value.setAttribute("x", clamp(x, SIDE, WIDE - SIDE).toFixed(2));
      if (part < 1) return;
      this.value.textContent = plain(now);
      this.caption.textContent = `${this.name} is ${plain(now)}: the machine sees ${this.view(now)}`;
      this.svg.setAttribute("aria-label", this.caption.textContent);
    }

    view(value) {
      const { window } = this;
      if (!window) return "nothing of it";
      if (Math.abs(value) < window) return `that it is ${plain(value)}`;
      return value > 0 ? `“${plain(window)} or more”` : `“${plain(-window)} or less”`;
    }
  }

  // All counters of an automaton.
  class Counters {
    constructor({ counters, window }) {
      this.lines = counters.map(([name, added], number) => new Line(name, added, window, number));
      this.element = make("div", { class: "counters" }, ...this.lines.map((line) => line.element));
    }

    span(steps) {
      for (const line of this.lines) line.span(steps);
    }

    show(steps, t, from, part) {
      for (const line of this.lines) line.show(steps, t, from, part);
    }
  }

  return Counters;
})();
