"use strict";

// A drawing of an automaton in which the current state is highlighted.
const Machine = (() => {
  const LETTER = 0.15, // its width, roughly
    LINE = 0.3, // from one line of a label to the next
    LONGEST = 16, // letters of a line that has more than one condition in it
    MOST_LINES = 8;
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
      const few = tokens.length > 4 ? `${tokens.slice(0, 3).join(", ")}, …` : tokens.join(", ");
      const parts = when ? `${few} if ${when}`.split(/ (?=and |or )/) : [few];
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
    const edges = joined(automaton, task.vocab); // "from>to", first to what it is, then to its path
    const arrows = make("g"),
      labels = make("g"),
      bodies = make("g");
    for (const [key, { s, to, conditions }] of edges) {
      const { path, label, anchor, rise } =
        s === to
          ? loop(at(s), outward(s), radius)
          : curve(at(s), at(to), radius, edges.has(`${to}>${s}`), centre);
      const written = lines(conditions);
      const wide = LETTER * Math.max(...written.map((line) => line.length)),
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
  function table(automaton, task, said) {
    const details = make("details", {}, make("summary", {}, "The automaton as a table"));
    const cell = (leads) =>
      leads.flatMap(([to, when], i) => [...(i ? [make("br")] : []), when ? `${to} if ${when}` : to]);
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const rows = ruled(automaton).map((row, s) =>
        make(
          "tr",
          {},
          make("th", { scope: "row" }, s === automaton.start ? `${s} (start)` : s),
          ...[[said(s)], ...row.map(cell)].map((parts) => make("td", {}, ...parts)),
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

  function curve([x0, y0], [x1, y1], radius, bothWays, centre) {
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [dx, dy] = [(x1 - x0) / length, (y1 - y0) / length];
    const bend = bothWays ? 0.18 * length : 0;
    const middle = [(x0 + x1) / 2 + dy * bend, (y0 + y1) / 2 - dx * bend];
    const rim = ([x, y]) => {
      const far = Math.hypot(middle[0] - x, middle[1] - y) || 1;
      return `${x + ((middle[0] - x) / far) * (radius + 0.05)},${y + ((middle[1] - y) / far) * (radius + 0.05)}`;
    };
    // The label is beside the curve, away from the centre if the curve is straight, and nearer to its
    // beginning, where fewer curves cross.
    const inward = (middle[0] - centre[0]) * dy - (middle[1] - centre[1]) * dx < 0;
    const side = !bothWays && inward ? -1 : 1,
      part = bothWays ? 0.4 : 0.32,
      along = (a, b, c) => (1 - part) ** 2 * a + 2 * part * (1 - part) * b + part ** 2 * c;
    return {
      path: `M${rim([x0, y0])}Q${middle}, ${rim([x1, y1])}`,
      label: [
        along(x0, middle[0], x1) + side * dy * 0.17,
        along(y0, middle[1], y1) - side * dx * 0.17,
      ],
      anchor: Math.abs(dy) < 0.4 ? "middle" : side * dy > 0 ? "start" : "end",
      rise: (-side * dx) / 2,
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
      rise: out[1] / 2,
    };
  }

  return { draw, head };
})();
