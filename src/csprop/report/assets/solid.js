"use strict";

// A machine that is a group, as a solid that turns: its states are corners, the moves of its tokens edges.
const Solid = (() => {
  const SPEED = 0.00016, // radians in a millisecond
    TRAIL = 6; // states that are remembered
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const X = [1, 0, 0],
    Y = [0, 1, 0],
    Z = [0, 0, 1];

  // The rotation about an axis of length 1, by Rodrigues' formula.
  function about([x, y, z], angle) {
    const [c, s] = [Math.cos(angle), Math.sin(angle)],
      r = 1 - c;
    return [
      [c + x * x * r, x * y * r - z * s, x * z * r + y * s],
      [y * x * r + z * s, c + y * y * r, y * z * r - x * s],
      [z * x * r - y * s, z * y * r + x * s, c + z * z * r],
    ];
  }
  const times = (a, b) => a.map((row) => [0, 1, 2].map((j) => row.reduce((sum, x, k) => sum + x * b[k][j], 0)));
  const applied = (a, v) => a.map((row) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);

  // The rotation that takes one direction towards another, by so much of the way.
  function towards(from, to, part) {
    const [a, b] = [from, to].map((v) => v.map((x) => x / (Math.hypot(...v) || 1)));
    const cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    const sine = Math.hypot(...cross),
      cosine = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    return sine < 1e-6 ? about(X, 0) : about(cross.map((x) => x / sine), part * Math.atan2(sine, cosine));
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

  class Solid extends Painting {
    constructor(automaton, task, said) {
      super();
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
      this.turned = times(about(X, solid.turned[0]), about(Y, solid.turned[1]));
      this.turning = !calm.matches;
      this.build();
    }

    build() {
      this.canvas = make("canvas", { role: "img" });
      this.box = make(
        "div",
        {
          class: "solid",
          tabindex: 0,
          role: "group",
          "aria-label": "The states in space. Arrow keys turn them.",
          onpointerdown: (event) => this.grab(event),
          onpointermove: (event) => this.drag(event),
          onpointerup: () => (this.held = null),
          onpointercancel: () => (this.held = null),
          onpointerenter: () => (this.over = true),
          onpointerleave: () => {
            this.over = false;
            this.pointed = null;
            this.draw();
          },
          onkeydown: (event) => this.key(event),
        },
        this.canvas,
      );
      this.button = make("button", { type: "button", onclick: () => this.toggle() });
      const { tokens } = this.automaton.solid,
        { vocab } = this.task;
      const items = tokens.map((token, kind) => make("li", {}, swatch(kind, `move t${kind}`), vocab[token]));
      if (tokens.length < vocab.length)
        items.push(make("li", {}, `${count(tokens.length)} of ${count(vocab.length)} tokens are drawn`));
      const legend = make("ul", { class: "legend" }, ...items);
      this.element = make("div", {}, this.box, make("div", { class: "over" }, legend, this.button));
      this.label();
      this.resized = new ResizeObserver(() => this.draw());
      this.resized.observe(this.box);
      this.visible = new IntersectionObserver(([entry]) => {
        this.seen = entry.isIntersecting;
        this.wake();
      });
      this.visible.observe(this.box);
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
      this.turned = this.flat ? times(this.turned, about(Z, angle)) : times(about(Y, angle), this.turned);
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
        const forward = 0.84, // in front, though not in the centre
          sideways = Math.sqrt(1 - forward ** 2) / (Math.hypot(at[0], at[1]) || 1);
        this.aim = [at[0] * sideways * far, at[1] * sideways * far, forward * far];
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
        this.turned = times(times(about(Y, dx * 0.008), about(X, dy * 0.008)), this.turned);
        this.held = [event.clientX, event.clientY];
      } else {
        const box = this.canvas.getBoundingClientRect(),
          [x, y] = [event.clientX - box.left, event.clientY - box.top];
        const distances = this.shown?.map((at) => Math.hypot(at.x - x, at.y - y) - at.z) ?? [Infinity],
          least = Math.min(...distances);
        this.pointed = least < 14 ? distances.indexOf(least) : null;
      }
      this.draw();
    }

    key(event) {
      const ways = { ArrowLeft: [Y, -0.15], ArrowRight: [Y, 0.15], ArrowUp: [X, -0.15], ArrowDown: [X, 0.15] };
      if (!(event.key in ways) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.aim = null;
      this.turned = times(about(...ways[event.key]), this.turned);
      this.draw();
    }

    colours() {
      const style = getComputedStyle(this.box);
      const colour = (name) => style.getPropertyValue(`--${name}`).trim();
      const [paper, ink, lit, onLit, card, soft, ...moves] =
        ["paper", "ink", "lit", "on-lit", "card", "soft", "t0", "t1", "t2", "t3"].map(colour);
      return { paper, ink, lit, onLit, card, soft, moves, font: style.fontFamily };
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
      const { eye } = this.automaton.solid;
      const scale = (Math.min(wide, tall) / 2) * (this.readable ? 0.76 : 0.88);
      this.disc = { x: wide / 2, y: tall / 2, radius: scale };
      this.shown = this.places.map((place) => {
        const [x, y, z] = applied(this.turned, place),
          near = eye / (eye - z);
        return { x: wide / 2 + x * near * scale, y: tall / 2 - y * near * scale, z, near };
      });
      this.paint(pen, this.colours());
    }
  }

  return Solid;
})();
