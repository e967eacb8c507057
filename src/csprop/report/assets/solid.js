"use strict";

// A machine that is a group, as a solid that turns: its states are corners, the moves of its tokens edges.
const Solid = (() => {
  const SPEED = 0.00016, // radians in a millisecond
    TRAIL = 6, // states that are remembered
    EYE = 4.2; // how far away the eye is
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const about = (axis, angle) => {
    const [c, s] = [Math.cos(angle), Math.sin(angle)];
    if (axis === "x") return [[1, 0, 0], [0, c, -s], [0, s, c]];
    if (axis === "y") return [[c, 0, s], [0, 1, 0], [-s, 0, c]];
    return [[c, -s, 0], [s, c, 0], [0, 0, 1]];
  };
  const times = (a, b) => a.map((row) => [0, 1, 2].map((j) => row.reduce((sum, x, k) => sum + x * b[k][j], 0)));
  const applied = (a, v) => a.map((row) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);

  // The rotation that takes one direction towards another, by so much of the way.
  function towards(from, to, part) {
    const [a, b] = [from, to].map((v) => v.map((x) => x / (Math.hypot(...v) || 1)));
    const cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    const sine = Math.hypot(...cross);
    if (sine < 1e-6) return about("y", 0);
    const [x, y, z] = cross.map((each) => each / sine),
      angle = part * Math.atan2(sine, a[0] * b[0] + a[1] * b[1] + a[2] * b[2]);
    const [c, s] = [Math.cos(angle), Math.sin(angle)],
      r = 1 - c;
    return [
      [c + x * x * r, x * y * r - z * s, x * z * r + y * s],
      [y * x * r + z * s, c + y * y * r, y * z * r - x * s],
      [z * x * r - y * s, z * y * r + x * s, c + z * z * r],
    ];
  }

  // The cycles of a token that are corners of a face: those of 3 to 6 states.
  function faces(transitions, token) {
    const found = [],
      seen = new Set();
    transitions.forEach((_, start) => {
      if (seen.has(start)) return;
      const cycle = [];
      for (let state = start; !seen.has(state); state = transitions[state][token]) {
        seen.add(state);
        cycle.push(state);
      }
      if (cycle.length > 2 && cycle.length < 7) found.push(cycle);
    });
    return found;
  }

  class Solid {
    constructor(automaton, task, said) {
      const { transitions, places, solid, readable } = automaton;
      Object.assign(this, { automaton, task, said, places, readable, path: [automaton.start] });
      this.flat = solid.shape === "circle";
      this.ball = solid.shape === "ball";
      this.clear = this.ball || solid.shape === "solid";
      this.edges = solid.tokens.flatMap((token, kind) =>
        transitions.flatMap((row, s) => {
          const back = transitions[row[token]][token] === s;
          return back && row[token] < s ? [] : [{ s, to: row[token], kind, both: back }];
        }),
      );
      this.faces = this.flat ? [] : solid.tokens.flatMap((token, kind) =>
        faces(transitions, token).map((cycle) => ({ cycle, kind })),
      );
      this.turned = this.flat ? about("x", -0.9) : times(about("x", 0.42), about("y", 0.5));
      this.turning = !calm.matches;
      this.build();
    }

    build() {
      this.canvas = make("canvas", { role: "img" });
      this.box = make(
        "div",
        { class: "solid", tabindex: 0, role: "group", "aria-label": "The states in space. Arrow keys turn them." },
        this.canvas,
      );
      this.button = make("button", { type: "button", onclick: () => this.toggle() });
      const swatch = (kind) =>
        make("svg", { width: 26, height: 10, "aria-hidden": "true" }, make("line", { x1: 0, x2: 26, y1: 5, y2: 5, class: `move t${kind}` }));
      const { tokens } = this.automaton.solid;
      const all = tokens.length === this.task.vocab.length;
      this.legend = make(
        "ul",
        { class: "legend" },
        ...tokens.map((token, kind) => make("li", {}, swatch(kind), this.task.vocab[token])),
        ...(all ? [] : [make("li", {}, `${count(tokens.length)} of ${count(this.task.vocab.length)} tokens are drawn`)]),
      );
      this.element = make("div", {}, this.box, make("div", { class: "over" }, this.legend, this.button));
      this.label();
      const listen = (name, act) => this.box.addEventListener(name, act);
      listen("pointerdown", (event) => this.grab(event));
      listen("pointermove", (event) => this.drag(event));
      for (const end of ["pointerup", "pointercancel"]) listen(end, () => (this.held = null));
      listen("pointerenter", () => (this.over = true));
      listen("pointerleave", () => {
        this.over = false;
        this.pointed = null;
        this.draw();
      });
      listen("keydown", (event) => this.key(event));
      this.resized = new ResizeObserver(() => this.draw());
      this.resized.observe(this.box);
      this.visible = new IntersectionObserver(([entry]) => {
        this.seen = entry.isIntersecting;
        this.wake();
      }).observe(this.box);
      this.recolour = () => this.draw();
      dark.addEventListener("change", this.recolour);
    }

    close() {
      this.seen = this.turning = false;
      this.resized.disconnect();
      this.visible.disconnect();
      dark.removeEventListener("change", this.recolour);
    }

    label() {
      this.button.textContent = this.turning ? "Stop turning" : "Turn";
    }

    toggle() {
      this.turning = !this.turning;
      this.label();
      this.wake();
    }

    // Frames follow each other only while something moves and the drawing can be seen.
    wake() {
      if (this.frame || !this.seen || !(this.turning || this.aim)) return;
      let before = performance.now();
      const frame = (now) => {
        this.frame = null;
        const passed = Math.min(50, now - before);
        before = now;
        const resting = this.over || this.held || this.box.matches(":focus-visible");
        if (this.aim) this.approach(1 - Math.exp(-passed / 160));
        else if (this.turning && !resting) this.spin(passed * SPEED);
        this.draw();
        if (this.seen && (this.turning || this.aim)) this.frame = requestAnimationFrame(frame);
      };
      this.frame = requestAnimationFrame(frame);
    }

    spin(angle) {
      this.turned = this.flat ? times(this.turned, about("z", angle)) : times(about("y", angle), this.turned);
    }

    // Turn so that the present state is in front.
    approach(part) {
      const from = applied(this.turned, this.places[this.path.at(-1)]);
      this.turned = times(towards(from, this.aim, part), this.turned);
      if (part === 1 || Math.hypot(...from.map((x, i) => x - this.aim[i])) < 0.02) this.aim = null;
    }

    light(path) {
      this.path = path.slice(-TRAIL);
      const at = applied(this.turned, this.places[path.at(-1)]),
        far = Math.hypot(...at);
      if (!this.flat && !this.held && at[2] < 0.6 * far) {
        const side = Math.hypot(at[0], at[1]) || 1,
          goal = 0.84;
        this.aim = [(at[0] / side) * Math.sqrt(1 - goal ** 2) * far, (at[1] / side) * Math.sqrt(1 - goal ** 2) * far, goal * far];
        if (calm.matches || !this.seen) this.approach(1);
      }
      this.draw();
      this.wake();
    }

    grab(event) {
      this.held = [event.clientX, event.clientY];
      this.aim = null;
      this.box.setPointerCapture?.(event.pointerId);
    }

    drag(event) {
      if (this.held) {
        const [dx, dy] = [event.clientX - this.held[0], event.clientY - this.held[1]];
        this.turned = times(times(about("y", dx * 0.008), about("x", dy * 0.008)), this.turned);
        this.held = [event.clientX, event.clientY];
      } else {
        const box = this.canvas.getBoundingClientRect(),
          [x, y] = [event.clientX - box.left, event.clientY - box.top];
        const near = this.shown?.map((at, s) => [Math.hypot(at.x - x, at.y - y) - at.z, s]).sort((a, b) => a[0] - b[0])[0];
        this.pointed = near && near[0] < 14 ? near[1] : null;
      }
      this.draw();
    }

    key(event) {
      const ways = { ArrowLeft: ["y", -0.15], ArrowRight: ["y", 0.15], ArrowUp: ["x", -0.15], ArrowDown: ["x", 0.15] };
      if (!(event.key in ways) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.aim = null;
      this.turned = times(about(...ways[event.key]), this.turned);
      this.draw();
    }

    colours() {
      const style = getComputedStyle(this.box);
      const of = (name) => style.getPropertyValue(`--${name}`).trim();
      return { paper: of("paper"), ink: of("ink"), lit: of("lit"), onLit: of("on-lit"), card: of("card"), soft: of("soft"), moves: [0, 1, 2, 3].map((k) => of(`t${k}`)), font: style.fontFamily };
    }

    draw() {
      const wide = this.box.clientWidth,
        tall = this.box.clientHeight;
      if (!wide) return;
      const ratio = Math.min(3, window.devicePixelRatio || 1);
      if (this.canvas.width !== Math.round(wide * ratio) || this.canvas.height !== Math.round(tall * ratio)) {
        this.canvas.width = Math.round(wide * ratio);
        this.canvas.height = Math.round(tall * ratio);
      }
      const pen = this.canvas.getContext("2d");
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, wide, tall);
      const scale = (Math.min(wide, tall) / 2) * (this.readable ? 0.76 : 0.88);
      this.disc = { x: wide / 2, y: tall / 2, radius: scale };
      this.shown = this.places.map((place) => {
        const [x, y, z] = applied(this.turned, place),
          near = EYE / (EYE - z);
        return { x: wide / 2 + x * near * scale, y: tall / 2 - y * near * scale, z, near };
      });
      this.paint(pen, this.colours());
    }

    // Everything from the back to the front; what is behind is paler.
    paint(pen, colours) {
      const at = this.shown,
        size = this.readable ? 20 : clamp(46 / Math.sqrt(at.length), 4, 7);
      const depth = (states) => states.reduce((sum, s) => sum + at[s].z, 0) / states.length;
      const pale = (z) => 0.14 + 0.86 * clamp((z + 0.75) / 1.35, 0, 1) ** 1.4;
      const parts = [
        ...this.faces.map(({ cycle, kind }) => [depth(cycle) - 0.03, () => this.face(pen, cycle, colours.moves[kind], pale(depth(cycle)))]),
        ...this.edges.map((edge) => {
          const z = depth([edge.s, edge.to]);
          return [z, () => this.edge(pen, edge, colours.moves[edge.kind], pale(z), 1 + 1.4 * clamp(z + 0.8, 0, 1.4), size)];
        }),
        ...at.map((point, s) => [point.z + 0.16, () => this.corner(pen, s, size * point.near, colours, pale(point.z))]),
      ];
      this.path.slice(1).forEach((to, i) => {
        const s = this.path[i],
          age = this.path.length - 2 - i;
        if (s === to) return;
        parts.push([depth([s, to]) + 0.06, () => this.move(pen, s, to, colours.lit, age)]);
      });
      if (this.ball) parts.push([-0.05, () => this.body(pen, colours)]);
      for (const [, act] of parts.sort((a, b) => a[0] - b[0])) act();
      pen.globalAlpha = 1;
      this.names(pen, colours, size);
    }

    // What the ball is made of: it hides most of what is behind it.
    body(pen, { paper, card }) {
      const { x, y, radius } = this.disc;
      const light = pen.createRadialGradient(x - 0.35 * radius, y - 0.4 * radius, 0.1 * radius, x, y, radius);
      light.addColorStop(0, paper);
      light.addColorStop(1, card);
      pen.globalAlpha = 0.78;
      pen.fillStyle = light;
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fill();
    }

    face(pen, cycle, colour, alpha) {
      pen.globalAlpha = (this.clear ? 0.38 : 0.08) * alpha;
      pen.fillStyle = colour;
      pen.beginPath();
      cycle.forEach((s, i) => pen[i ? "lineTo" : "moveTo"](this.shown[s].x, this.shown[s].y));
      pen.fill();
    }

    edge(pen, { s, to, both }, colour, alpha, width, size) {
      const [a, b] = [this.shown[s], this.shown[to]];
      pen.globalAlpha = alpha;
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      pen.moveTo(a.x, a.y);
      pen.lineTo(b.x, b.y);
      pen.stroke();
      if (both || this.places.length > 200) return;
      const long = Math.hypot(b.x - a.x, b.y - a.y);
      if (long < 3 * size) return; // there is no room for a head
      const [dx, dy] = [(b.x - a.x) / long, (b.y - a.y) / long],
        tip = 2.5 + 1.3 * width,
        [x, y] = [(a.x + b.x) / 2 + (dx * tip) / 2, (a.y + b.y) / 2 + (dy * tip) / 2];
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x - dx * tip - dy * tip * 0.5, y - dy * tip + dx * tip * 0.5);
      pen.lineTo(x - dx * tip + dy * tip * 0.5, y - dy * tip - dx * tip * 0.5);
      pen.fill();
    }

    // A move of the last few tokens; the older, the paler.
    move(pen, s, to, colour, age) {
      const [a, b] = [this.shown[s], this.shown[to]];
      pen.globalAlpha = 0.95 * 0.78 ** age;
      pen.strokeStyle = colour;
      pen.lineWidth = age ? 3.5 : 5;
      pen.lineCap = "round";
      pen.beginPath();
      pen.moveTo(a.x, a.y);
      pen.lineTo(b.x, b.y);
      pen.stroke();
    }

    corner(pen, s, radius, colours, alpha) {
      const { x, y } = this.shown[s],
        now = s === this.path.at(-1),
        age = this.path.length - 1 - this.path.lastIndexOf(s),
        past = !now && this.path.includes(s);
      const disc = (r, fill) => {
        pen.fillStyle = fill;
        pen.beginPath();
        pen.arc(x, y, r, 0, 2 * Math.PI);
        pen.fill();
      };
      pen.globalAlpha = 1;
      if (now) {
        const far = this.readable ? radius * 2 : radius * 4.5;
        const glow = pen.createRadialGradient(x, y, radius * 0.6, x, y, far);
        glow.addColorStop(0, colours.lit);
        glow.addColorStop(1, `${colours.lit}00`);
        pen.globalAlpha = 0.6;
        disc(far, glow);
        pen.globalAlpha = 1;
        disc(radius * (this.readable ? 1.15 : 1.9), colours.lit);
      } else {
        disc(radius, colours.paper); // so that edges end at its rim
        pen.globalAlpha = past && !this.readable ? Math.max(0.5, 0.95 * 0.82 ** age) : alpha;
        disc(radius, this.readable ? colours.card : past ? colours.lit : colours.ink);
        if (!this.readable) return;
      }
      pen.globalAlpha = now ? 1 : alpha;
      pen.strokeStyle = now ? colours.ink : past ? colours.lit : colours.soft;
      pen.lineWidth = now || past ? 2 : 1.2;
      pen.beginPath();
      pen.arc(x, y, radius * (now ? (this.readable ? 1.15 : 1.9) : 1), 0, 2 * Math.PI);
      pen.stroke();
    }

    // Names: of all states if they are few, else of the present one and of the one that is pointed at.
    names(pen, colours, size) {
      const all = this.readable ? [...this.places.keys()].sort((a, b) => this.shown[a].z - this.shown[b].z) : [];
      const now = this.path.at(-1);
      const named = this.readable ? all : [now, this.pointed];
      for (const s of named.filter((each, i) => each !== null && each !== undefined && named.indexOf(each) === i)) {
        const { x, y, z, near } = this.shown[s],
          text = this.said(s);
        pen.font = `600 ${this.readable ? 12 : 15}px ${colours.font}`;
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        const wide = pen.measureText(text).width;
        const fits = this.readable && wide < 1.8 * size * near;
        pen.globalAlpha = this.readable && s !== now ? 0.25 + 0.75 * clamp((z + 0.9) / 1.2, 0, 1) : 1;
        if (!fits) {
          const up = y - (s === now ? 2.2 : 1.4) * size * near - 13;
          pen.fillStyle = colours.paper;
          pen.beginPath();
          pen.roundRect(x - wide / 2 - 7, up - 11, wide + 14, 22, 11);
          pen.fill();
          pen.strokeStyle = s === now ? colours.lit : colours.soft;
          pen.lineWidth = 1.2;
          pen.stroke();
        }
        pen.fillStyle = fits && s === now ? colours.onLit : colours.ink;
        pen.fillText(text, x, fits ? y + 0.5 : y - (s === now ? 2.2 : 1.4) * size * near - 12.5);
      }
      pen.globalAlpha = 1;
    }
  }

  return Solid;
})();
