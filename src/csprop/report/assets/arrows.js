"use strict";

// The arrows of an automaton in the plane, and places for their labels. A state is a circle, or longer by `straight` on
// both sides.
const Arrows = (() => {
  const GAP = 0.13, // from an arrow to its label
    FREE = 0.24; // what should be free around a state
  let heads = 0;

  // The head of arrows in a drawing: its definition, and what an arrow has to say to get it.
  function head(size) {
    const id = `head-${heads++}`;
    const box = { viewBox: "0 0 6 6", refX: 5.4, refY: 3, markerWidth: size, markerHeight: size };
    const marker = make(
      "marker",
      { id, ...box, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" },
      make("path", { d: "M0,0L6,3L0,6z", class: "head" }),
    );
    return { defined: make("defs", {}, marker), worn: `url(#${id})` };
  }

  const turned = ([x, y], angle) => [
    x * Math.cos(angle) - y * Math.sin(angle),
    x * Math.sin(angle) + y * Math.cos(angle),
  ];

  // How far the rim of a state is from its centre, in a direction.
  function reach([dx, dy], { radius, straight }) {
    if (Math.abs(dx) * radius <= straight * Math.abs(dy)) return radius / Math.abs(dy);
    return straight * Math.abs(dx) + Math.sqrt(Math.max(0, radius ** 2 - (straight * dy) ** 2));
  }

  // How far a point is from a state's rim; negative inside.
  const outside = ([x, y], state) =>
    Math.hypot(Math.max(0, Math.abs(x - state.x) - state.straight), y - state.y) - state.radius;

  // The points of a curve of Bézier's.
  function along(points, t) {
    const between = (list) => list.slice(1).map(([x, y], i) => [list[i][0] + t * (x - list[i][0]), list[i][1] + t * (y - list[i][1])]);
    while (points.length > 1) points = between(points);
    return points[0];
  }
  const SHARES = Array.from({ length: 13 }, (_, i) => 0.14 + 0.06 * i);

  function curve(one, two, bend) {
    const middle = [(one.x + two.x) / 2 + bend * (two.y - one.y), (one.y + two.y) / 2 - bend * (two.x - one.x)];
    const rim = (state) => {
      const far = Math.hypot(middle[0] - state.x, middle[1] - state.y) || 1,
        way = [(middle[0] - state.x) / far, (middle[1] - state.y) / far],
        edge = reach(way, state) + 0.05;
      return [state.x + way[0] * edge, state.y + way[1] * edge];
    };
    const points = [rim(one), middle, rim(two)];
    return { path: `M${points[0]}Q${middle} ${points[2]}`, on: SHARES.map((t) => along(points, t)) };
  }

  function loop(state, out) {
    const point = ([dx, dy], far) => [state.x + dx * far, state.y + dy * far];
    const far = state.radius * 1.7 + reach(out, state);
    const [a, b] = [turned(out, -0.5), turned(out, 0.5)];
    const points = [point(a, reach(a, state) + 0.03), point(a, far), point(b, far), point(b, reach(b, state) + 0.05)];
    return { path: `M${points[0]}C${points.slice(1).join(" ")}`, on: SHARES.map((t) => along(points, t)), out };
  }

  // The paths of all arrows. Those that lead both ways are bent, as are those that would cross a third state.
  function drawn(states, edges, start) {
    const mean = (axis) => states.reduce((sum, state) => sum + state[axis], 0) / states.length;
    const centre = [mean("x"), mean("y")];
    const outward = ({ x, y }) => {
      const far = Math.hypot(x - centre[0], y - centre[1]);
      return far > 1e-6 ? [(x - centre[0]) / far, (y - centre[1]) / far] : [0, -1];
    };
    const made = [...edges].map(([key, { s, to, conditions }]) => {
      if (s === to) return { key, conditions, ...loop(states[s], outward(states[s])) };
      const bends = edges.has(`${to}>${s}`) ? [0.17, 0.26, 0.1] : [0, 0.14, -0.14, 0.26, -0.26];
      const others = states.filter((_, each) => each !== s && each !== to);
      const room = ({ on }) => Math.min(FREE, ...others.flatMap((other) => on.map((point) => outside(point, other))));
      const tried = bends.map((bend) => curve(states[s], states[to], bend));
      return { key, conditions, ...tried.reduce((best, each) => (room(each) > room(best) + 1e-6 ? each : best)) };
    });
    const first = states[start],
      away = edges.has(`${start}>${start}`) ? turned(outward(first), 1.2) : outward(first),
      edge = reach(away, first);
    const entry = (far) => [first.x + far * away[0], first.y + far * away[1]];
    return [...made, { path: `M${entry(edge + 0.5)}L${entry(edge + 0.06)}`, on: [entry(edge + 0.5), entry(edge + 0.25)] }];
  }

  // A place for each label beside its arrow, where it covers no state, no other label and few arrows.
  function labelled(states, arrows, lines, size, line) {
    const placed = [];
    const touches = (a, b) => Math.min(a.wide + b.wide - Math.abs(a.x - b.x), a.tall + b.tall - Math.abs(a.y - b.y));
    const covers = ({ x, y, wide, tall }, [px, py]) => Math.abs(px - x) < wide + 0.03 && Math.abs(py - y) < tall;
    const cost = (box, own, worst) => {
      let sum = worst;
      for (const other of placed) sum += touches(box, other) > -0.04 ? 40 : 0;
      for (const state of states) {
        const [dx, dy] = [Math.abs(box.x - state.x) - box.wide - state.straight, Math.abs(box.y - state.y) - box.tall];
        if (Math.hypot(Math.max(0, dx), Math.max(0, dy)) < state.radius + 0.04) sum += 60;
      }
      for (const { on } of arrows) if (on !== own) sum += 6 * on.filter((point) => covers(box, point)).length;
      return sum + 3 * own.filter((point) => covers(box, point)).length;
    };
    for (const { conditions, on, out } of arrows) {
      if (!conditions) continue;
      const written = lines(conditions),
        wide = (size * Math.max(...written.map(measured))) / 2,
        tall = (line * written.length) / 2;
      const tried = (out ? [6] : [6, 5, 7, 4, 8, 3, 9, 2, 10]).flatMap((place, far) => {
        const [before, after] = [on[place - 1], on[place + 1]];
        const long = Math.hypot(after[0] - before[0], after[1] - before[1]) || 1;
        const normal = out ?? [(after[1] - before[1]) / long, -(after[0] - before[0]) / long];
        return (out ? [1] : [1, -1]).map((side) => {
          const off = Math.abs(normal[0]) * wide + Math.abs(normal[1]) * tall + GAP;
          const [x, y] = [on[place][0] + side * normal[0] * off, on[place][1] + side * normal[1] * off];
          const box = { written, x, y, wide, tall };
          return { box, cost: cost(box, on, 0.5 * far + (side < 0 ? 0.4 : 0)) };
        });
      });
      placed.push(tried.reduce((best, each) => (each.cost < best.cost ? each : best)).box);
    }
    return placed;
  }

  // The part of the plane that has everything in it: left, top, width and height.
  function extent(states, arrows, placed) {
    const boxes = [
      ...states.map(({ x, y, radius, straight }) => ({ x, y, wide: radius + straight, tall: radius })),
      ...arrows.flatMap(({ on }) => on.map(([x, y]) => ({ x, y, wide: 0, tall: 0 }))),
      ...placed,
    ];
    const [left, top] = [Math.min(...boxes.map(({ x, wide }) => x - wide)), Math.min(...boxes.map(({ y, tall }) => y - tall))];
    const [right, bottom] = [Math.max(...boxes.map(({ x, wide }) => x + wide)), Math.max(...boxes.map(({ y, tall }) => y + tall))];
    return [left - 0.12, top - 0.12, right - left + 0.24, bottom - top + 0.24];
  }

  return { head, drawn, labelled, extent };
})();
