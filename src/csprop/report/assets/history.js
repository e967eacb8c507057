"use strict";

// What a trained model's channels do over a whole sequence: the phase of those that matter most to the decoder, a
// point after each token. Points that wander are drift.
const History = (() => {
  const WIDE = 560,
    NARROW = 320, // where there is less room, so that letters are not too small
    LEFT = 58,
    RIGHT = 10,
    TALL = 92, // of one channel
    MOST_POINTS = 420,
    CHANNELS = 4;

  // The channels with the largest weights in the decoder.
  function chosen(model) {
    const { width } = model,
      linear = model.weights.get("decoder.linear.weight");
    const [outputs, inputs] = linear.shape;
    const size = (d) => {
      let sum = 0;
      for (let row = 0; row < outputs; row++)
        for (let i = d; i < inputs; i += width) sum += linear.values[row * inputs + i] ** 2;
      return sum;
    };
    const channels = Array.from({ length: width }, (_, d) => d);
    return channels.sort((a, b) => size(b) - size(a)).slice(0, CHANNELS).sort((a, b) => a - b);
  }

  class History {
    // `layer` is the last one whose states are numbers in a plane.
    constructor(model, layer) {
      Object.assign(this, { model, layer, wide: window.innerWidth < 600 ? NARROW : WIDE });
      this.turns = model.order === 2; // else there is no one phase
      this.channels = chosen(model);
      this.points = make("g");
      this.now = make("line", { class: "pointer", y1: 0, y2: TALL * this.channels.length });
      this.svg = make(
        "svg",
        { viewBox: `0 -6 ${this.wide} ${TALL * this.channels.length + 30}`, role: "img" },
        ...this.channels.flatMap((d, row) => this.axis(d, row)),
        this.points,
        this.now,
      );
      this.first = make("text", { x: LEFT, y: TALL * this.channels.length + 16 });
      this.last = make("text", { x: this.wide - RIGHT, y: TALL * this.channels.length + 16, "text-anchor": "end" });
      this.svg.append(this.first, this.last);
      this.caption = make("figcaption");
      this.element = make("figure", { class: "history" }, this.svg, this.caption);
    }

    axis(d, row) {
      const middle = row * TALL + TALL / 2,
        half = TALL / 2 - 12,
        ends = this.turns ? ["π", "0", "−π"] : ["1", "0", "−1"];
      return [
        make("text", { x: 0, y: middle + 4 }, `ch. ${d + 1}`),
        ...ends.flatMap((name, i) => {
          const y = middle + (i - 1) * half;
          return [
            make("line", { class: "grid", x1: LEFT, x2: this.wide - RIGHT, y1: y, y2: y }),
            make("text", { x: LEFT - 5, y: y + 4, "text-anchor": "end" }, name),
          ];
        }),
      ];
    }

    value(step, d) {
      const planes = step.states[this.layer];
      const [x, y] = [planes[0][d], planes[1][d]];
      return this.turns ? Math.atan2(y, x) / Math.PI : clamp(x, -1, 1);
    }

    // Draw all steps of a sequence, or of a long one so many that they can be told apart.
    span(steps, wrong, asked) {
      const last = Math.max(1, steps.length - 1);
      this.across = (t) => LEFT + 4 + (t / last) * (this.wide - RIGHT - LEFT - 8);
      const apart = Math.max(1, Math.ceil(last / MOST_POINTS));
      const times = Array.from(steps.keys()).filter((t) => t % apart === 0 || t === last);
      const size = times.length > 150 ? 1.6 : 2.8;
      const half = TALL / 2 - 12;
      this.points.replaceChildren(
        ...this.channels.flatMap((d, row) =>
          times.map((t) => {
            const [x, y] = [this.across(t), row * TALL + TALL / 2 - half * this.value(steps[t], d)];
            const far = size + 0.6;
            if (t >= asked && wrong[t])
              return make("path", {
                class: "then wrong",
                d: `M${x - far},${y - far}l${2 * far},${2 * far}m0,${-2 * far}l${-2 * far},${2 * far}`,
              });
            return make("circle", { class: "then", cx: x.toFixed(1), cy: y.toFixed(1), r: size });
          }),
        ),
      );
      this.first.textContent = "0";
      this.last.textContent = `${count(steps.length - 1)} tokens`;
      const errors = wrong.filter((each, t) => each && t >= asked).length;
      const what = this.turns ? "The phase" : "The first coordinate";
      const names = this.channels.map((d) => d + 1).join(", ");
      const seen = errors ? " A cross: the answer is wrong." : "";
      this.caption.textContent = `${what} of the channels that the decoder weighs most (${names}) after each token.${seen}`;
      this.svg.setAttribute("aria-label", `${this.caption.textContent} Wrong after ${count(errors)} of ${count(steps.length - 1)} tokens.`);
    }

    show(t) {
      this.now.setAttribute("x1", this.across(t));
      this.now.setAttribute("x2", this.across(t));
    }
  }

  return History;
})();
