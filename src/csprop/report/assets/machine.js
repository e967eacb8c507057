"use strict";

// A drawing of an automaton in which the current state is highlighted.
const Machine = (() => {
  const LETTER = 0.15; // its width, roughly
  let heads = 0;

  // The head of arrows in a drawing: its definition, and what an arrow has to say to get it.
  function head(size) {
    const id = `head-${heads++}`;
    const shape = make("path", { d: "M0,0L6,3L0,6z", class: "head" });
    const marker = make(
      "marker",
      {
        id,
        viewBox: "0 0 6 6",
        refX: 5.4,
        refY: 3,
        markerUnits: "userSpaceOnUse",
        markerWidth: size,
        markerHeight: size,
        orient: "auto-start-reverse",
      },
      shape,
    );
    return { defined: make("defs", {}, marker), worn: `url(#${id})` };
  }

  function draw(automaton, task) {
    const { start, transitions, answers, readable, places } = automaton; // readable: arrows are labelled
    const states = transitions.length;
    const caption = make("figcaption");
    const said = (state) => (answers[state] === null ? "nothing yet" : task.classes[answers[state]]);
    const tell = (state) => {
      caption.textContent = `the smallest automaton, ${count(states)} states: now in state ${state}, which answers ${said(state)}`;
    };
    if (!places)
      return {
        element: make("figure", { class: "machine" }, caption, table(automaton, task, said)),
        light: tell,
      };
    const radius = readable ? 0.42 : 0.22;
    const at = (s) => [places[s][0], -places[s][1]];
    const centre = [0, 1].map((axis) => places.reduce((sum, _, s) => sum + at(s)[axis], 0) / states);
    const outward = (s) => {
      const [x, y] = [at(s)[0] - centre[0], at(s)[1] - centre[1]],
        far = Math.hypot(x, y);
      return far > 1e-6 ? [x / far, y / far] : [0, -1];
    };
    const seen = transitions.flatMap((_, s) => [-radius, radius].map((r) => at(s).map((x) => x + r))); // points that must be in the picture
    const extent = (axis) => {
      const values = seen.map((point) => point[axis]);
      return [Math.min(...values) - 0.2, Math.max(...values) + 0.2];
    };
    const { defined, worn } = head(0.17);
    const edges = new Map(); // "from>to" to its path
    const arrows = make("g"),
      labels = make("g"),
      bodies = make("g");
    transitions.forEach((row, s) =>
      row.forEach((to, token) => {
        const key = `${s}>${to}`;
        if (!edges.has(key)) edges.set(key, { s, to, tokens: [] });
        edges.get(key).tokens.push(task.vocab[token]);
      }),
    );
    for (const [key, { s, to, tokens }] of edges) {
      const { path, label, anchor } =
        s === to
          ? loop(at(s), outward(s), radius)
          : curve(at(s), at(to), radius, edges.has(`${to}>${s}`));
      const text = tokens.length > 4 ? `${tokens.slice(0, 3).join(", ")}, …` : tokens.join(", ");
      const wide = LETTER * text.length;
      for (const end of { start: [0, 1], middle: [-0.5, 0.5], end: [-1, 0] }[anchor])
        seen.push([label[0] + end * wide, label[1]]);
      const element = make("path", { class: "arrow", d: path, "marker-end": worn });
      edges.set(key, element);
      arrows.append(element);
      if (readable)
        labels.append(
          make(
            "text",
            { x: label[0], y: label[1], dy: "0.09", class: "on", style: `text-anchor: ${anchor}` },
            text,
          ),
        );
    }
    const [sx, sy] = at(start),
      [ox, oy] = edges.has(`${start}>${start}`) ? turned(outward(start), 1.1) : outward(start);
    seen.push([sx + (radius + 0.2) * ox, sy + (radius + 0.2) * oy]);
    const entry = (far) => `${sx + far * ox},${sy + far * oy}`;
    arrows.append(
      make("path", {
        class: "arrow",
        d: `M${entry(radius + 0.5)}L${entry(radius + 0.06)}`,
        "marker-end": worn,
      }),
    );
    const nodes = transitions.map((_, s) => {
      const [x, y] = at(s),
        name = answers[s] === null ? "–" : task.classes[answers[s]];
      const shown = name.length > 7 ? `${name.slice(0, 6)}…` : name;
      const node = make(
        "g",
        { class: "state" },
        make("title", {}, `state ${s}: ${said(s)}`),
        make("circle", { cx: x, cy: y, r: radius }),
      );
      const size = !readable ? "small" : shown.length > 5 ? "tight" : "";
      if (readable || name.length <= 3)
        node.append(make("text", { x, y, dy: readable ? "0.09" : "0.06", class: size }, shown));
      bodies.append(node);
      return node;
    });
    const [left, right] = extent(0),
      [top, bottom] = extent(1);
    const wide = right - left;
    const svg = make(
      "svg",
      {
        viewBox: `${left} ${top} ${wide} ${bottom - top}`,
        role: "img",
        style: `max-width: ${Math.round(Math.min(34, (readable ? 5 : 3) * wide))}rem`,
      },
      defined,
      arrows,
      labels,
      bodies,
    );
    let lit = [];
    function light(state, before) {
      for (const element of lit) element.classList.remove("lit");
      lit = [nodes[state], edges.get(`${before}>${state}`)].filter(Boolean);
      for (const element of lit) element.classList.add("lit");
      tell(state);
      svg.setAttribute("aria-label", caption.textContent);
    }
    return {
      element: make("figure", { class: "machine" }, svg, caption, table(automaton, task, said)),
      light,
    };
  }

  // The transitions as a table, made when it is first opened.
  function table({ start, transitions }, task, said) {
    const details = make("details", {}, make("summary", {}, "The automaton as a table"));
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const rows = transitions.map((row, s) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, s === start ? `${s} (start)` : s),
          ...[said(s), ...row].map((text) => make("td", {}, text)),
        ),
      );
      const headings = ["state", "answer", ...task.vocab.map((token) => `after ${token}`)];
      details.append(tabulated("The automaton as a table", headings, make("tbody", {}, ...rows)));
    });
    return details;
  }

  const turned = ([x, y], angle) => [
    x * Math.cos(angle) - y * Math.sin(angle),
    x * Math.sin(angle) + y * Math.cos(angle),
  ];

  function curve([x0, y0], [x1, y1], radius, bothWays) {
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
    const bend = bothWays ? 0.18 * length : 0;
    const middle = [(x0 + x1) / 2 + dy * bend, (y0 + y1) / 2 - dx * bend];
    const rim = ([x, y]) => {
      const far = Math.hypot(middle[0] - x, middle[1] - y) || 1;
      return `${x + ((middle[0] - x) / far) * (radius + 0.05)},${y + ((middle[1] - y) / far) * (radius + 0.05)}`;
    };
    // The label is beside the curve, nearer to its beginning, where fewer curves cross.
    const part = 0.4,
      along = (a, b, c) => (1 - part) ** 2 * a + 2 * part * (1 - part) * b + part ** 2 * c;
    return {
      path: `M${rim([x0, y0])}Q${middle}, ${rim([x1, y1])}`,
      label: [along(x0, middle[0], x1) + dy * 0.17, along(y0, middle[1], y1) - dx * 0.17],
      anchor: Math.abs(dy) < 0.4 ? "middle" : dy > 0 ? "start" : "end",
    };
  }

  function loop([x, y], out, radius) {
    const [a, b] = [turned(out, -0.5), turned(out, 0.5)];
    const point = ([dx, dy], far) => `${x + dx * far},${y + dy * far}`;
    const far = radius * 2.6;
    const label = [x + out[0] * (far * 0.86 + 0.06), y + out[1] * (far * 0.86 + 0.12)];
    const anchor = Math.abs(out[0]) < 0.4 ? "middle" : out[0] > 0 ? "start" : "end";
    return {
      path: `M${point(a, radius + 0.03)}C${point(a, far)} ${point(b, far)} ${point(b, radius + 0.05)}`,
      label,
      anchor,
    };
  }

  return { draw, head };
})();
