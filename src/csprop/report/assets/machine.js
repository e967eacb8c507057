"use strict";

// A drawing of an automaton in which the current state is highlighted.
const Machine = (() => {
  const SIZE = 0.26, // of letters
    SMALL = 0.21, // of those in a state, where they would not fit
    LINE = 0.3, // from one line of a label to the next
    LONGEST = 12, // letters of a line that has more than one token or condition in it
    WIDEST = 1.9, // a name in a state
    MOST_LINES = 8,
    MOST_COLUMNS = 6; // of tokens, in a table

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
    const { transitions, answers, places } = automaton;
    const counters = automaton.counters?.length ?? 0;
    const plural = (number, name) => `${count(number)} ${name}${number === 1 ? "" : "s"}`;
    const size = plural(transitions.length, "state") + (counters ? ` and ${plural(counters, "counter")}` : "");
    const caption = make("figcaption");
    const said = (state) => (answers[state] === null ? "nothing yet" : task.classes[answers[state]]);
    const tell = (state) => {
      caption.textContent = `${counters ? "the" : "the smallest"} automaton, ${size}: now in state ${state}, which answers ${said(state)}`;
    };
    const parts = { said, tell, caption, listed: table(automaton, task, said) };
    if (places) return flat(automaton, task, parts);
    return { element: make("figure", { class: "machine" }, caption, parts.listed), light: (path) => tell(path.at(-1)) };
  }

  // An automaton in the plane: states, and arrows that join all tokens from one state to another.
  function flat(automaton, task, { said, tell, caption, listed }) {
    const { start, transitions, answers, readable } = automaton; // where it is readable, arrows have labels
    const radius = readable ? 0.42 : 0.22;
    const states = transitions.map((_, s) => {
      const name = answers[s] === null ? "–" : task.classes[answers[s]];
      return { x: automaton.places[s][0], y: -automaton.places[s][1], radius, ...body(name, radius, readable) };
    });
    const { defined, worn } = Arrows.head(0.17);
    const edges = joined(automaton, task.vocab); // "from>to", first to what it is, then to its path
    const drawn = Arrows.drawn(states, edges, start);
    const placed = readable ? Arrows.labelled(states, drawn, lines, SIZE, LINE) : [];
    const arrows = make("g"),
      labels = make("g"),
      bodies = make("g");
    for (const { key, path } of drawn) {
      const element = make("path", { class: "arrow", d: path, "marker-end": worn });
      edges.set(key, element);
      arrows.append(element);
    }
    for (const { written, x, y } of placed)
      written.forEach((text, line) =>
        labels.append(
          make("text", { x, y: y + (line - (written.length - 1) / 2) * LINE, dy: "0.09", class: "on" }, text),
        ),
      );
    const nodes = states.map(({ x, y, straight, shown, size }, s) => {
      const half = straight + radius;
      const node = make(
        "g",
        { class: "state" },
        make("title", {}, `state ${s}: ${said(s)}`),
        make("rect", { x: x - half, y: y - radius, width: 2 * half, height: 2 * radius, rx: radius }),
      );
      if (shown)
        node.append(make("text", { x, y, dy: (0.35 * size).toFixed(3), style: `font-size: ${size}px` }, shown));
      bodies.append(node);
      return node;
    });
    const [left, top, wide, tall] = Arrows.extent(states, drawn, placed);
    const svg = make(
      "svg",
      {
        viewBox: `${left} ${top} ${wide} ${tall}`,
        role: "img",
        style: `max-width: ${Math.round(Math.min(40, (readable ? 5 : 3) * wide))}rem`,
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
    return { element: make("figure", { class: "machine" }, svg, caption, listed), light };
  }

  // The transitions as a table; of many tokens, in one column.
  function table(automaton, task, said) {
    const many = task.vocab.length > MOST_COLUMNS;
    const way = ([to, when]) => (when ? `${to} if ${when}` : String(to));
    const cell = (leads) => leads.flatMap((lead, i) => [...(i ? [make("br")] : []), way(lead)]);
    const inOne = (leads) => leads.map((each, token) => `${task.vocab[token]}: ${each.map(way).join(" or ")}`).join(", ");
    return folded("The automaton as a table", "The automaton as a table", () => ({
      headings: ["state", "answer", ...(many ? ["token: the next state"] : task.vocab.map((token) => `after ${token}`))],
      rows: ruled(automaton).map((leads, s) =>
        row(s === automaton.start ? `${s} (start)` : s, said(s), ...(many ? [inOne(leads)] : leads.map(cell))),
      ),
    }));
  }

  // The text in a state and its size, and how much longer than a circle the state is for it.
  function body(name, radius, readable) {
    const room = 1.5 * radius;
    if (!readable) return measured(name) * 0.16 > room ? { straight: 0 } : { straight: 0, shown: name, size: 0.16 };
    for (const size of [SIZE, SMALL])
      if (measured(name) * size <= room) return { straight: 0, shown: name, size };
    let shown = name;
    while (measured(shown) * SMALL > WIDEST) shown = `${shown.replace(/…$/, "").slice(0, -1)}…`;
    return { straight: (measured(shown) * SMALL - room) / 2, shown, size: SMALL };
  }

  return { draw };
})();
