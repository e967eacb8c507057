"use strict";

// The picture of a chart: its grid, its lines and its marks.
const Plot = (() => {
  const HEIGHT = 240,
    LEFT = 52,
    RIGHT = 14,
    TOP = 12,
    BOTTOM = 40;
  const { forward, shown, ticks, range } = Scales;

  // From a value to a place between two ends.
  const scale =
    (axis, [low, high], from, to) =>
    (value) =>
      from + ((forward(axis, value) - low) / (high - low)) * (to - from);

  const circle = (attributes, x, y, r) => make("circle", { ...attributes, cx: x, cy: y, r });

  function shape(mark, x, y) {
    const name = `mark c${mark.colour}`;
    if (mark.shape === "spike") return make("path", { class: name, d: `M${x - 5},${y - 5}h10l-5,9z` });
    return circle({ class: mark.shape === "ring" ? `${name} ring` : name }, x, y, 4);
  }

  // A sample of a line; lines differ in their marks, too.
  function sample(colour, x, y) {
    const attributes = { class: `mark c${colour}` };
    const [square, triangle, diamond] = [`M${x - 4.5},${y - 4.5}h9v9h-9z`, `M${x - 5.5},${y + 4.2}h11l-5.5,-9.6z`, `M${x - 5},${y}l5,-5l5,5l-5,5z`];
    const d = [null, square, triangle, diamond][colour % 4];
    return d ? make("path", { ...attributes, d }) : circle(attributes, x, y, 3.6);
  }

  // The part `view` of the x axis; the y axis has the range of the points in it.
  function draw({ spec, points, view }, width) {
    const inside = points.filter(([x]) => forward(spec.x, x) >= view[0] && forward(spec.x, x) <= view[1]);
    const heights = (inside.length ? inside : points).map(([, y]) => y);
    const tall = range(spec.y, heights, 0.05);
    const across = scale(spec.x, view, LEFT, width - RIGHT);
    const up = scale(spec.y, tall, HEIGHT - BOTTOM, TOP);
    const svg = make("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" });
    grid(svg, spec, { view, tall, across, up, width });
    const drawn = lines(spec, [...new Set(points.map(([x]) => x))], across, up, width);
    const pointer = make("line", { class: "pointer", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    const band = make("rect", { class: "band", y: TOP, height: HEIGHT - TOP - BOTTOM, visibility: "hidden" });
    drawn.append(band, pointer);
    svg.append(drawn);
    return { svg, across, pointer, band };
  }

  function grid(svg, spec, { view, tall, across, up, width }) {
    const text = (x, y, anchor, words) => make("text", { x, y, "text-anchor": anchor }, words);
    for (const value of ticks(spec.y, tall[0], tall[1], 5)) {
      const y = up(value);
      if (y < TOP - 1 || y > HEIGHT - BOTTOM + 1) continue;
      const words = spec.y.percent ? `${Math.round(100 * value)}%` : shown(spec.y, value);
      svg.append(
        make("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
        text(LEFT - 6, y + 4, "end", words),
      );
    }
    for (const value of ticks(spec.x, view[0], view[1], width / 80)) {
      const x = across(value);
      svg.append(
        make("line", { class: "grid", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
        text(x, HEIGHT - BOTTOM + 16, "middle", count(Math.round(value * 100) / 100 || 0)),
      );
    }
    svg.append(text((LEFT + width - RIGHT) / 2, HEIGHT - 4, "middle", spec.x.label));
  }

  // Samples are marked, and what joins them is faint. `xs` are the places at which any line has a point: a line of
  // samples is not drawn across one that it lacks.
  function lines(spec, xs, across, up, width) {
    const inner = width - LEFT - RIGHT;
    const clipped = make("svg", { x: LEFT, y: 0, width: inner, height: HEIGHT, viewBox: `${LEFT} 0 ${inner} ${HEIGHT}` });
    for (const series of [...spec.series].reverse()) { // the first is on top
      const drawn = series.points.filter(([x, y]) => (!spec.y.log || y > 0) && (!spec.x.log || x > 0));
      const few = Boolean(spec.x.sampled);
      const gap = (from, to) => few && xs.some((x) => x > from && x < to);
      const path = drawn
        .map(([x, y], i) => {
          const joined = i && !gap(drawn[i - 1][0], x);
          return `${joined ? "L" : "M"}${across(x).toFixed(1)},${up(y).toFixed(1)}`;
        })
        .join("");
      clipped.append(make("path", { class: `line c${series.colour}${few ? " between" : ""}`, d: path }));
      if (few) clipped.append(...drawn.map(([x, y]) => sample(series.colour, across(x), up(y))));
    }
    clipped.append(...spec.marks.map((mark) => shape(mark, across(mark.x), up(mark.y))));
    return clipped;
  }

  return { LEFT, RIGHT, draw, shape };
})();
