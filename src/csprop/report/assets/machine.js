"use strict";

// A drawing of an automaton in which the current state is highlighted.
const Machine = (() => {
  const SIZE = 0.26, // of letters
    SMALL = 0.21, // of those in a state, where they would not fit
    LINE = 0.3, // from one line of a label to the next
    LONGEST = 16, // letters of a line that has more than one token or condition in it
    WIDEST = 1.9, // a name in a state
    MOST_LINES = 8,
    MOST_COLUMNS = 6; // of tokens, in a table
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

  // Where each token leads from each state: pairs of a state and the condition on the counts, empty if there is none.
  const ruled = ({ rules, transitions }) => rules ?? transitions.map((row) => row.map((to) => [[to, ""]]));

  // The arrows: from where to where, and the tokens that lead there, by condition.
  function joined(automaton, vocab) {
    const edges = new Map();
    ruled(automaton).forEach((row, s) =>
      row.forEach((leads, token) => {
        for (const [to, when] of leads) {
          const key = `${s}>${to}`;
          if (!edges.has(key)) edges.set(key, { s, to, conditions: new Map() });
          const { conditions } = edges.get(key);
          conditions.set(when, [...(conditions.get(when) ?? []), vocab[token]]);
        }
      }),
    );
    return edges;
  }

  // The label of an arrow: a line for each condition, or several where it is long.
  function lines(conditions) {
    const made = [...conditions].flatMap(([when, tokens]) => {
      const few = tokens.length > 4 ? [...tokens.slice(0, 3), "…"] : tokens;
      const listed = few.map((token, i) => (i < few.length - 1 ? `${token},` : token));
      const parts = when ? `${listed.join(" ")} if ${when}`.split(/ (?=and |or )/) : listed;
      return parts.reduce((done, part) => {
        const fits = done.length && done.at(-1).length + part.length < LONGEST;
        return fits ? [...done.slice(0, -1), `${done.at(-1)} ${part}`] : [...done, part];
      }, []);
    });
    return made.length > MOST_LINES ? [...made.slice(0, MOST_LINES - 1), "…"] : made;
  }

  function draw(automaton, task) {
    const { start, transitions, answers, readable, places } = automaton; // readable: arrows are labelled
    const states = transitions.length,
      counters = automaton.counters?.length ?? 0;
    const plural = (number, name) => `${count(number)} ${name}${number === 1 ? "" : "s"}`;
    const size = plural(states, "state") + (counters ? ` and ${plural(counters, "counter")}` : "");
    const caption = make("figcaption");
    const said = (state) => (answers[state] === null ? "nothing yet" : task.classes[answers[state]]);
    const tell = (state) => {
      caption.textContent = `${counters ? "the" : "the smallest"} automaton, ${size}: now in state ${state}, which answers ${said(state)}`;
    };
    if (!places)
      return {
        element: make("figure", { class: "machine" }, caption, table(automaton, task, said)),
        light: (path) => tell(path.at(-1)),
      };
    if (automaton.solid) return turning(automaton, task, { said, tell, caption });
    const radius = readable ? 0.42 : 0.22;
    const bodiesOf = transitions.map((_, s) => body(answers[s] === null ? "–" : task.classes[answers[s]], radius, readable));
    const at = (s) => [places[s][0], -places[s][1]];
    const centre = [0, 1].map((axis) => places.reduce((sum, _, s) => sum + at(s)[axis], 0) / states);
    const outward = (s) => {
      const [x, y] = [at(s)[0] - centre[0], at(s)[1] - centre[1]],
        far = Math.hypot(x, y);
      return far > 1e-6 ? [x / far, y / far] : [0, -1];
    };
    // Points that must be in the picture.
    const seen = transitions.flatMap((_, s) =>
      [-1, 1].map((sign) => [at(s)[0] + sign * (bodiesOf[s].straight + radius), at(s)[1] + sign * radius]),
    );
    const extent = (axis) => {
      const values = seen.map((point) => point[axis]);
      return [Math.min(...values) - 0.2, Math.max(...values) + 0.2];
    };
    const { defined, worn } = head(0.17);
    const edges = joined(automaton, task.vocab); // "from>to", first to what it is, then to its path
    const arrows = make("g"),
      labels = make("g"),
      bodies = make("g");
    for (const [key, { s, to, conditions }] of edges) {
      const { path, label, anchor, rise } =
        s === to
          ? loop(at(s), outward(s), radius, bodiesOf[s])
          : curve(at(s), at(to), radius, edges.has(`${to}>${s}`), centre, [bodiesOf[s], bodiesOf[to]]);
      const written = lines(conditions);
      const wide = SIZE * Math.max(...written.map(measured)),
        top = label[1] + (rise - 0.5) * LINE * (written.length - 1); // of the first line
      for (const end of { start: [0, 1], middle: [-0.5, 0.5], end: [-1, 0] }[anchor])
        for (const line of [0, written.length - 1]) seen.push([label[0] + end * wide, top + line * LINE]);
      const element = make("path", { class: "arrow", d: path, "marker-end": worn });
      edges.set(key, element);
      arrows.append(element);
      if (readable)
        written.forEach((text, line) =>
          labels.append(
            make(
              "text",
              { x: label[0], y: top + line * LINE, dy: "0.09", class: "on", style: `text-anchor: ${anchor}` },
              text,
            ),
          ),
        );
    }
    const [sx, sy] = at(start),
      [ox, oy] = edges.has(`${start}>${start}`) ? turned(outward(start), 1.1) : outward(start);
    const edge = reach([ox, oy], radius, bodiesOf[start].straight);
    seen.push([sx + (edge + 0.2) * ox, sy + (edge + 0.2) * oy]);
    const entry = (far) => `${sx + far * ox},${sy + far * oy}`;
    arrows.append(
      make("path", {
        class: "arrow",
        d: `M${entry(edge + 0.5)}L${entry(edge + 0.06)}`,
        "marker-end": worn,
      }),
    );
    const nodes = transitions.map((_, s) => {
      const [x, y] = at(s),
        { straight, shown, size } = bodiesOf[s],
        half = straight + radius;
      const node = make(
        "g",
        { class: "state" },
        make("title", {}, `state ${s}: ${said(s)}`),
        make("rect", { x: x - half, y: y - radius, width: 2 * half, height: 2 * radius, rx: radius }),
      );
      if (shown) node.append(make("text", { x, y, dy: (0.35 * size).toFixed(3), style: `font-size: ${size}px` }, shown));
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
    function light(path) {
      const [state, before] = [path.at(-1), path.at(-2)];
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

  // The automaton of a group, in space.
  function turning(automaton, task, { said, tell, caption }) {
    const solid = new Solid(automaton, task, said);
    const light = (path) => {
      solid.light(path);
      tell(path.at(-1));
      solid.canvas.setAttribute("aria-label", caption.textContent);
    };
    const folded = table(automaton, task, said);
    return {
      element: make("figure", { class: "machine" }, solid.element, caption, folded),
      light,
      close: () => solid.close(),
    };
  }

  // The transitions as a table, made when it is first opened; of many tokens, in one column.
  function table(automaton, task, said) {
    const details = make("details", {}, make("summary", {}, "The automaton as a table"));
    const cell = (leads) =>
      leads.flatMap(([to, when], i) => [...(i ? [make("br")] : []), when ? `${to} if ${when}` : to]);
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const many = task.vocab.length > MOST_COLUMNS;
      const way = ([to, when]) => (when ? `${to} if ${when}` : to);
      const inOne = (row) => [row.map((leads, token) => `${task.vocab[token]}: ${leads.map(way).join(" or ")}`).join(", ")];
      const rows = ruled(automaton).map((row, s) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, s === automaton.start ? `${s} (start)` : s),
          ...[[said(s)], ...(many ? [inOne(row)] : row.map(cell))].map((parts) => make("td", {}, ...parts)),
        ),
      );
      const after = many ? ["token: the next state"] : task.vocab.map((token) => `after ${token}`);
      const headings = ["state", "answer", ...after];
      details.append(tabulated("The automaton as a table", headings, make("tbody", {}, ...rows)));
    });
    return details;
  }

  // What is written in a state and how large, and how much longer than a circle the state is for it.
  function body(name, radius, readable) {
    const room = 1.7 * radius;
    if (!readable) return measured(name) * 0.16 > room ? { straight: 0 } : { straight: 0, shown: name, size: 0.16 };
    for (const size of [SIZE, SMALL])
      if (measured(name) * size <= room) return { straight: 0, shown: name, size };
    let shown = name;
    while (measured(shown) * SMALL > WIDEST) shown = `${shown.replace(/…$/, "").slice(0, -1)}…`;
    return { straight: (measured(shown) * SMALL - room) / 2, shown, size: SMALL };
  }

  // How far the rim of a state is from its centre, in a direction.
  function reach([dx, dy], radius, straight) {
    if (Math.abs(dx) * radius <= straight * Math.abs(dy)) return radius / Math.abs(dy);
    return straight * Math.abs(dx) + Math.sqrt(Math.max(0, radius ** 2 - (straight * dy) ** 2));
  }

  const turned = ([x, y], angle) => [
    x * Math.cos(angle) - y * Math.sin(angle),
    x * Math.sin(angle) + y * Math.cos(angle),
  ];

  function curve([x0, y0], [x1, y1], radius, bothWays, centre, [one, two]) {
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
    const bend = bothWays ? 0.18 * length : 0;
    const middle = [(x0 + x1) / 2 + dy * bend, (y0 + y1) / 2 - dx * bend];
    const rim = ([x, y], { straight }) => {
      const far = Math.hypot(middle[0] - x, middle[1] - y) || 1,
        way = [(middle[0] - x) / far, (middle[1] - y) / far],
        edge = reach(way, radius, straight) + 0.05;
      return `${x + way[0] * edge},${y + way[1] * edge}`;
    };
    // The label is beside the curve, away from the centre if the curve is straight, and nearer to its
    // beginning, where fewer curves cross.
    const inward = (middle[0] - centre[0]) * dy - (middle[1] - centre[1]) * dx < 0;
    const side = !bothWays && inward ? -1 : 1,
      part = bothWays ? 0.4 : 0.32,
      along = (a, b, c) => (1 - part) ** 2 * a + 2 * part * (1 - part) * b + part ** 2 * c;
    return {
      path: `M${rim([x0, y0], one)}Q${middle}, ${rim([x1, y1], two)}`,
      label: [
        along(x0, middle[0], x1) + side * dy * 0.17,
        along(y0, middle[1], y1) - side * dx * 0.17,
      ],
      anchor: Math.abs(dy) < 0.4 ? "middle" : side * dy > 0 ? "start" : "end",
      rise: (-side * dx) / 2,
    };
  }

  function loop([x, y], out, radius, { straight }) {
    const [a, b] = [turned(out, -0.5), turned(out, 0.5)];
    const point = ([dx, dy], far) => `${x + dx * far},${y + dy * far}`;
    const rim = (way, gap) => point(way, reach(way, radius, straight) + gap);
    const far = radius * 1.6 + reach(out, radius, straight);
    const label = [x + out[0] * (far * 0.86 + 0.06), y + out[1] * (far * 0.86 + 0.12)];
    const anchor = Math.abs(out[0]) < 0.4 ? "middle" : out[0] > 0 ? "start" : "end";
    return {
      path: `M${rim(a, 0.03)}C${point(a, far)} ${point(b, far)} ${rim(b, 0.05)}`,
      label,
      anchor,
      rise: out[1] / 2,
    };
  }

  return { draw, head };
})();
