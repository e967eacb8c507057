"use strict";

// A panel of the explorer: one model, and what it answers to a sequence.
const Panel = (() => {
  const TRAIL = 8; // moves that a drawing may show

  // The truth after every token, or null where the task does not know it.
  function truths(truth, tokens) {
    if (truth?.increments) return new Tally(truth).run(tokens).map(({ answer }) => answer);
    const found = [null];
    let state = truth ? 0 : -1;
    for (const token of tokens) {
      state = state < 0 ? -1 : truth.moves[state][token];
      found.push(state < 0 ? null : truth.answers[state]);
    }
    return found;
  }

  // One model: its answers, its states, its automaton.
  class Panel {
    constructor(entry, task) {
      this.counts = Boolean(entry.automaton?.increments);
      const model = this.counts ? new Tally(entry.automaton) : new CSP.Model(entry);
      Object.assign(this, { entry, task, model });
      this.summary = make("p", { class: "verdict" });
      this.circles = make("div", { class: "circles" });
      this.counters = this.counts ? new Counters(entry.automaton) : null;
      const layers = model.layers ?? [];
      this.circles.style.setProperty("--layers", Math.min(3, layers.length));
      this.views = make("div", { class: "views" }, this.counters?.element ?? this.circles);
      this.routers = []; // the drawings of layers that route; the others have dots
      this.dots = layers.map(({ routes }, layer) => (routes ? this.places(layer) : this.circle(layer)));
      this.numbers = make("tbody");
      this.element = make(
        "article",
        { class: `panel c${entry.colour}`, "aria-label": entry.name },
        make("h3", {}, swatch(entry.colour), make("span", {}, entry.name), " ", badge(entry.proof)),
        this.summary,
        this.views,
      );
      if (entry.automaton) {
        this.drawing = Machine.draw(entry.automaton, task);
        this.views.append(this.drawing.element);
      } else {
        const layer = layers.findLastIndex(({ routes }) => !routes);
        this.history = layer < 0 ? null : new History(model, layer);
        if (this.history) this.views.append(this.history.element);
      }
      const headings = this.counts ? ["counter", "count", "seen as"] : ["layer", "channel", "phase", "modulus", "gate"];
      this.details = make(
        "details",
        { ontoggle: () => this.list() },
        make("summary", {}, "The numbers of this step"),
        tabulated(`${entry.name}: the numbers of this step`, headings, this.numbers),
      );
      this.element.append(this.details);
    }

    places(layer) {
      const drawing = new Places(this.model, layer, this.task);
      this.routers.push(drawing);
      this.circles.append(drawing.element);
      return [];
    }

    circle(layer) {
      const { width, order } = this.model;
      const kept = this.entry.kept?.[layer];
      const dots = Array.from({ length: width }, (_, d) => {
        const name = kept && !kept[d] ? "dot unused" : "dot";
        return make("circle", { class: name, r: 0.055 }, make("title", {}, `channel ${d + 1}`));
      });
      const flattened = order > 2 ? `, the first two of ${order} coordinates` : "";
      const label = `Layer ${layer + 1}: the states of ${width} channels${flattened}; the numbers are in the table below`;
      const svg = make(
        "svg",
        { viewBox: "-1.15 -1.15 2.3 2.3", role: "img", "aria-label": label },
        make("circle", { class: "rim", r: 1 }),
        make("line", { class: "grid", x1: -1, x2: 1 }),
        make("line", { class: "grid", y1: -1, y2: 1 }),
        ...dots,
      );
      const caption = `layer ${layer + 1}${order > 2 ? ` (2 of ${order} coordinates)` : ""}`;
      this.circles.append(make("figure", {}, svg, make("figcaption", {}, caption)));
      return dots;
    }

    run(tokens) {
      const differs = tokens.findIndex((token, t) => token !== this.tokens?.[t]);
      const same = differs < 0 ? tokens.length : differs; // steps that stay as they are
      this.tokens = tokens;
      this.truth = truths(this.task.truth, tokens);
      this.steps = this.model.run(tokens, this.steps?.slice(0, same + 1));
      this.said = this.steps.map(({ scores, answer }, t) => {
        if (!t) return null;
        if (this.counts) return { best: answer, confidence: null }; // it is looked up, not scored
        const chances = CSP.softmax(scores),
          most = Math.max(...chances);
        // What a locked model answers is certain, however large its score is.
        return { best: chances.indexOf(most), confidence: this.entry.sure ? most : null };
      });
      this.counters?.span(this.steps);
      if (this.counts) this.states = this.steps.map(({ state }) => state);
      else if (this.entry.automaton) {
        const { start, transitions } = this.entry.automaton;
        this.states = [start];
        for (const token of tokens) this.states.push(transitions[this.states.at(-1)][token]);
      }
      this.wrong = this.truth.map((right, t) => t > 0 && right !== null && this.said[t].best !== right);
      this.firstWrong = this.wrong.indexOf(true, this.entry.asked);
      this.history?.span(this.steps, this.wrong, this.entry.asked);
    }

    // Where a channel's dot is after a token: the state's first two numbers, at most 1 from the centre.
    place(layer, d, t) {
      const [x, y] = this.steps[t].states[layer].map((plane) => plane[d]);
      const scale = 1 / Math.max(1, Math.hypot(x, y));
      return [x * scale, y * scale];
    }

    // Between two steps the dots turn about the centre; `part` is how much of the way they have gone.
    show(t, from = t, part = 1) {
      const gates = this.steps[t].gates;
      this.counters?.show(this.steps, t, from, part);
      this.dots.forEach((dots, layer) =>
        dots.forEach((dot, d) => {
          const [x0, y0] = this.place(layer, d, from),
            [x1, y1] = this.place(layer, d, t);
          const [r0, r1] = [Math.hypot(x0, y0), Math.hypot(x1, y1)];
          let turn = Math.atan2(y1, x1) - (r0 ? Math.atan2(y0, x0) : Math.atan2(y1, x1));
          turn -= 2 * Math.PI * Math.round(turn / (2 * Math.PI));
          const angle = Math.atan2(y1, x1) - (1 - part) * turn,
            radius = r0 + part * (r1 - r0);
          dot.setAttribute("cx", (radius * Math.cos(angle)).toFixed(4));
          dot.setAttribute("cy", (-radius * Math.sin(angle)).toFixed(4));
          const gate = gates ? Math.min(1, gates[layer][d % gates[layer].length]) : 1;
          dot.style.opacity = (0.25 + 0.75 * gate).toFixed(2);
        }),
      );
      if (part < 1) return;
      this.now = t;
      for (const router of this.routers) router.show(this.steps, t);
      this.drawing?.light(this.states.slice(Math.max(0, t - TRAIL), t + 1));
      this.history?.show(t);
      const early = t < this.entry.asked;
      this.summary.className = `verdict ${this.wrong[t] ? (early ? "early" : "wrong") : ""}`;
      const answer = t ? this.task.classes[this.said[t].best] : "";
      this.summary.replaceChildren(make("strong", {}, answer), this.sentence(t).slice(answer.length));
      this.list();
    }

    sentence(t) {
      if (!t) return "Nothing read yet.";
      const { best, confidence } = this.said[t],
        { classes } = this.task;
      const right = this.truth[t];
      const verdict =
        right === null ? "" : best === right ? ", which is right" : `, but ${classes[right]} is right`;
      const sure = confidence === null ? "" : ` (${percent(confidence)} sure)`;
      return `${classes[best]}${sure}${verdict}.${this.overall()}`;
    }

    // Whether all answers are right, from the first token on whose answer the model was trained.
    overall() {
      const { asked } = this.entry,
        unknown = this.truth.indexOf(null, 1);
      const known = unknown < 0 ? this.tokens.length : unknown - 1;
      if (known < asked) return "";
      const alone = asked > 1 ? ` Trained only on the answer after ${count(asked)} tokens;` : "";
      if (this.firstWrong < 0 && alone) return `${alone} right from there on.`;
      if (this.firstWrong < 0) return known > 1 ? ` Right after each of ${count(known)} tokens.` : "";
      const where = `${count(this.firstWrong)} ${this.firstWrong > 1 ? "tokens" : "token"}`;
      return alone ? `${alone} from there on, first wrong after ${where}.` : ` First wrong after ${where}.`;
    }

    list() {
      if (!this.details.open || this.now === undefined) return;
      this.numbers.replaceChildren(...(this.counts ? this.tallied() : this.channels()));
    }

    // A row for each counter.
    tallied() {
      const { counters } = this.entry.automaton;
      return this.steps[this.now].counts.map((value, number) =>
        row(counters[number][0], count(value), count(this.model.seen(value))),
      );
    }

    // A row for each channel of each layer.
    channels() {
      const { states, gates } = this.steps[this.now];
      return states.flatMap((planes, layer) =>
        Array.from(planes[0], (re, d) => {
          const { routes } = this.model.layers[layer];
          const phase = Math.atan2(planes[1][d], re).toFixed(3),
            modulus = Math.hypot(...planes.map((plane) => plane[d])).toFixed(3),
            gate = gates && !routes ? gates[layer][d % gates[layer].length].toFixed(3) : "";
          return row(layer + 1, routes ? `place ${d}` : d + 1, phase, modulus, gate);
        }),
      );
    }
  }

  return Panel;
})();
