"use strict";

// The explorer: a sequence is run through one model or two, and looked at after any of its tokens.
const Explorer = (() => {
  const LONGEST = 20000,
    MILLISECONDS = 450;
  const byId = (id) => document.getElementById(id);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  // The truth after every token, or null where the task does not know it.
  function truths(truth, tokens) {
    const found = [null];
    let state = truth ? 0 : -1;
    for (const token of tokens) {
      state = state < 0 ? -1 : truth.moves[state][token];
      found.push(state < 0 ? null : truth.answers[state]);
    }
    return found;
  }

  // One model with everything that it says of a sequence.
  class Panel {
    constructor(entry, task) {
      Object.assign(this, { entry, task, model: new CSP.Model(entry) });
      this.summary = make("p", { class: "verdict" });
      this.circles = make("div", { class: "circles" });
      this.dots = Array.from({ length: entry.config.depth }, (_, layer) => this.circle(layer));
      this.numbers = make("tbody");
      this.element = make(
        "article",
        { class: "panel", "aria-label": entry.name },
        make("h3", {}, entry.name),
        this.summary,
        this.circles,
      );
      if (entry.automaton) {
        this.drawing = Machine.draw(entry.automaton, task);
        this.element.append(this.drawing.element);
      }
      this.details = make(
        "details",
        {},
        make("summary", {}, "The numbers of this step"),
        tabulated(
          `${entry.name}: the numbers of this step`,
          ["layer", "channel", "phase", "modulus", "gate"],
          this.numbers,
        ),
      );
      this.details.addEventListener("toggle", () => this.list());
      this.element.append(this.details);
    }

    circle(layer) {
      const { width, order } = this.entry.config;
      const kept = this.entry.kept?.[layer];
      const dots = Array.from({ length: width }, (_, d) =>
        make(
          "circle",
          { class: kept && !kept[d] ? "dot unused" : "dot", r: 0.055 },
          make("title", {}, `channel ${d + 1}`),
        ),
      );
      const flattened = order > 2 ? `, the first two of ${order} coordinates` : "";
      this.circles.append(
        make(
          "figure",
          {},
          make(
            "svg",
            {
              viewBox: "-1.15 -1.15 2.3 2.3",
              role: "img",
              "aria-label": `Layer ${layer + 1}: the states of ${width} channels${flattened}; the numbers are in the table below`,
            },
            make("circle", { class: "rim", r: 1 }),
            make("line", { class: "grid", x1: -1, x2: 1 }),
            make("line", { class: "grid", y1: -1, y2: 1 }),
            ...dots,
          ),
          make("figcaption", {}, `layer ${layer + 1}`, order > 2 ? ` (2 of ${order} coordinates)` : ""),
        ),
      );
      return dots;
    }

    run(tokens, truth) {
      const differs = tokens.findIndex((token, t) => token !== this.tokens?.[t]);
      const same = differs < 0 ? tokens.length : differs; // as before: not computed again
      this.tokens = tokens;
      this.truth = truth;
      this.steps = this.model.run(tokens, this.steps?.slice(0, same + 1));
      this.said = this.steps.map(({ scores }) => {
        if (!scores) return null;
        const chances = CSP.softmax(scores),
          confidence = Math.max(...chances);
        return { best: chances.indexOf(confidence), confidence };
      });
      if (this.entry.automaton) {
        const { start, transitions } = this.entry.automaton;
        this.states = [start];
        for (const token of tokens) this.states.push(transitions[this.states.at(-1)][token]);
      }
      this.wrong = truth.map((right, t) => t > 0 && right !== null && this.said[t].best !== right);
      this.firstWrong = this.wrong.indexOf(true, this.entry.asked);
    }

    // Where a channel's dot is after a token: the state's first two numbers, at most 1 from the centre.
    place(layer, d, t) {
      const [x, y] = this.steps[t].states[layer].map((plane) => plane[d]);
      const scale = 1 / Math.max(1, Math.hypot(x, y));
      return [x * scale, y * scale];
    }

    // Between two steps dots turn about the centre; `part` of the way.
    show(t, from = t, part = 1) {
      const gates = this.steps[t].gates;
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
      this.drawing?.light(this.states[t], t ? this.states[t - 1] : null);
      this.summary.textContent = this.sentence(t);
      this.list();
    }

    sentence(t) {
      if (!t) return "Nothing read yet.";
      const { best, confidence } = this.said[t],
        { classes } = this.task;
      const right = this.truth[t];
      const verdict =
        right === null ? "" : best === right ? ", which is right" : `, but ${classes[right]} is right`;
      return `${classes[best]} (${percent(confidence)} sure)${verdict}.${this.overall()}`;
    }

    // How far it is right, from the first token on whose answer the model was trained.
    overall() {
      const { asked } = this.entry,
        unknown = this.truth.indexOf(null, 1);
      const known = unknown < 0 ? this.tokens.length : unknown - 1;
      if (known < asked) return "";
      const alone = asked > 1 ? ` Trained on answers after ${count(asked)} tokens alone;` : "";
      if (this.firstWrong < 0) {
        if (alone) return `${alone} right from there on.`;
        return known > 1 ? ` Right after each of ${count(known)} tokens.` : "";
      }
      const where = `${count(this.firstWrong)} ${this.firstWrong > 1 ? "tokens" : "token"}`;
      return alone
        ? `${alone} from there on first wrong after ${where}.`
        : ` First wrong after ${where}.`;
    }

    list() {
      if (!this.details.open || this.now === undefined) return;
      const { states, gates } = this.steps[this.now];
      this.numbers.replaceChildren(
        ...states.flatMap((planes, layer) =>
          Array.from(planes[0], (re, d) => {
            const numbers = [
              Math.atan2(planes[1][d], re),
              Math.hypot(...planes.map((plane) => plane[d])),
              gates ? gates[layer][d % gates[layer].length] : null,
            ];
            return make(
              "tr",
              {},
              make("th", { scope: "row" }, layer + 1),
              make("td", {}, d + 1),
              ...numbers.map((value) => make("td", {}, value === null ? "" : value.toFixed(3))),
            );
          }),
        ),
      );
    }
  }

  class View {
    constructor(models, tasks) {
      Object.assign(this, { models, tasks, tokens: [], time: 0, playing: null, sample: 0 });
      this.choose(byId("model"), models, models.find((model) => model.automaton) ?? models[0]);
      byId("model").addEventListener("change", () => this.swap());
      byId("beside").addEventListener("change", () => this.compare());
      byId("sequence").addEventListener("input", () => this.read());
      byId("time").addEventListener("input", (event) => {
        this.pause();
        this.go(Number(event.target.value));
      });
      byId("back").addEventListener("click", () => {
        this.pause();
        this.go(this.time - 1);
      });
      byId("forward").addEventListener("click", () => {
        this.pause();
        this.go(this.time + 1);
      });
      byId("play").addEventListener("click", () => this.toggle());
      byId("another").addEventListener("click", () => this.another());
      byId("clear").addEventListener("click", () => this.write([]));
      new ResizeObserver(() => this.strip()).observe(byId("strip"));
      byId("explorer").hidden = false;
      this.swap(true);
    }

    choose(select, models, chosen) {
      select.replaceChildren(
        ...models.map((model) =>
          make("option", { value: this.models.indexOf(model), selected: model === chosen }, model.name),
        ),
      );
    }

    get first() {
      return this.models[Number(byId("model").value)];
    }

    // Another model: keep the sequence if it has the same tokens.
    swap(fresh = false) {
      const task = this.tasks[this.first.task];
      const same = !fresh && JSON.stringify(task.vocab) === JSON.stringify(this.task.vocab);
      this.task = task;
      const kind = ({ name, vocab, classes }) => JSON.stringify([name, vocab, classes]);
      const alike = this.models.filter(
        (model) => model !== this.first && kind(this.tasks[model.task]) === kind(task),
      );
      const twin = alike.find((model) => model.run === this.first.run);
      const printed = alike.find((model) => !model.automaton && model !== twin);
      this.choose(byId("beside"), alike, printed ?? twin);
      byId("beside").prepend(make("option", { value: "", selected: !(printed ?? twin) }, "none"));
      byId("beside").closest("label").hidden = !alike.length;
      const typed = !task.vocab.some((token) => /\s/.test(token)); // else words could not be told apart
      byId("sequence").readOnly = !typed;
      byId("tokens").replaceChildren(
        ...(typed && task.vocab.length > 12
          ? []
          : task.vocab.map((token, number) =>
              make(
                "button",
                {
                  type: "button",
                  "aria-label": `Add ${token}`,
                  onclick: () => this.write([...this.tokens, number]),
                },
                token,
              ),
            )),
      );
      byId("question").textContent = task.description ? `${task.name}: ${task.description}` : task.name;
      this.sample = 0;
      this.compare(same);
      if (!same) this.another();
    }

    compare(run = true) {
      const beside = byId("beside").value;
      const shown = [this.first, ...(beside === "" ? [] : [this.models[Number(beside)]])];
      this.panels = shown.map((model) => new Panel(model, this.tasks[model.task]));
      byId("panels").replaceChildren(...this.panels.map((panel) => panel.element));
      if (run) this.run();
    }

    another() {
      const { examples, vocab } = this.task;
      const drawn = () => Array.from({ length: 32 }, () => Math.floor(Math.random() * vocab.length));
      const tokens = examples.length ? examples[this.sample++ % examples.length] : drawn();
      this.write(tokens, Math.min(tokens.length, this.task.trained ?? tokens.length));
    }

    write(tokens, time = tokens.length) {
      const { vocab, words } = this.task;
      byId("sequence").value = tokens.map((token) => vocab[token]).join(words ? " " : "");
      this.complain("");
      this.tokens = tokens;
      this.run(time);
    }

    read() {
      const { vocab, words } = this.task,
        text = byId("sequence").value;
      const symbols = words
        ? text.split(/\s+/).filter(Boolean)
        : [...text].filter((each) => each.trim());
      const unknown = symbols.findIndex((symbol) => !vocab.includes(symbol));
      const listed = vocab.length > 12 ? `${vocab.slice(0, 12).join(", ")}, …` : vocab.join(", ");
      if (unknown >= 0)
        return this.complain(
          `“${symbols[unknown].slice(0, 40)}” at position ${unknown + 1} is no token here: write ${listed}.`,
        );
      if (symbols.length > LONGEST)
        return this.complain(
          `${count(symbols.length)} tokens are too many for this page: at most ${count(LONGEST)}. csprop eval and csprop predict take any number.`,
        );
      this.complain("");
      this.tokens = symbols.map((symbol) => vocab.indexOf(symbol));
      return this.run(this.tokens.length);
    }

    complain(sentence) {
      byId("complaint").textContent = sentence;
      byId("sequence").setAttribute("aria-invalid", String(Boolean(sentence)));
      byId("explorer").classList.toggle("stale", Boolean(sentence)); // what is shown is of what was typed before
    }

    run(time = this.time) {
      this.pause();
      for (const panel of this.panels) panel.run(this.tokens, truths(panel.task.truth, this.tokens));
      byId("time").max = this.tokens.length;
      this.time = -1;
      this.go(time);
    }

    go(time) {
      const before = this.time;
      this.time = clamp(time, 0, this.tokens.length);
      byId("time").value = this.time;
      byId("now").textContent = `${count(this.time)} of ${count(this.tokens.length)}`;
      for (const [id, off] of [
        ["back", this.time === 0],
        ["forward", this.time === this.tokens.length],
        ["play", !this.tokens.length],
      ]) {
        byId(id).setAttribute("aria-disabled", String(off)); // and not disabled, which would lose the focus
      }
      this.turn(Math.abs(this.time - before) === 1 && before >= 0 ? before : this.time);
      this.strip();
      if (!this.playing) this.say();
    }

    // For those who listen: once, and not at every step of a play.
    say() {
      byId("said").textContent = this.panels
        .map((panel) => `${panel.entry.name}: ${panel.sentence(this.time)}`)
        .join(" ");
    }

    // One token on or back is seen as a movement, anything farther as a jump.
    turn(from) {
      cancelAnimationFrame(this.frame);
      const began = performance.now(),
        to = this.time;
      for (const panel of this.panels) panel.show(to);
      if (from === to || calm.matches) return;
      const frame = (now) => {
        const part = clamp((now - began) / (MILLISECONDS * 0.6), 0, 1),
          eased = part * part * (3 - 2 * part);
        for (const panel of this.panels) panel.show(to, from, eased);
        if (part < 1) this.frame = requestAnimationFrame(frame);
      };
      frame(began);
    }

    toggle() {
      if (!this.tokens.length) return undefined;
      if (this.playing) return this.pause();
      if (this.time === this.tokens.length) this.go(0);
      this.playing = setInterval(() => {
        this.go(this.time + 1);
        if (this.time === this.tokens.length) this.pause();
      }, MILLISECONDS);
      byId("play").textContent = "Pause";
      return undefined;
    }

    pause() {
      if (this.playing) this.say();
      clearInterval(this.playing);
      this.playing = null;
      byId("play").textContent = "Play";
    }

    // What is said after each token, as many as there is room for, around the present one.
    strip() {
      const table = byId("strip"),
        { vocab, classes, trained } = this.task,
        { truth } = this.panels[0];
      const longest = Math.max(...[...vocab, ...classes].map((name) => name.length));
      const column = clamp(8 * longest + 12, 46, 110);
      const room = Math.max(2, Math.floor((table.clientWidth - 72) / column));
      const first = clamp(
        this.time - Math.floor(room / 2),
        1,
        Math.max(1, this.tokens.length - room + 1),
      );
      const times = Array.from({ length: Math.min(room, this.tokens.length) }, (_, i) => first + i);
      const focused = table.contains(document.activeElement);
      const cell = (t, attributes, ...children) =>
        make(
          "td",
          {
            ...attributes,
            class: [attributes.class, t === this.time && "now", t === trained && "trained"]
              .filter(Boolean)
              .join(" "),
          },
          ...children,
        );
      const row = (name, make_cell) =>
        make("tr", {}, make("th", { scope: "row" }, name), ...times.map(make_cell));
      const said = (panel) => (t) => {
        const { best, confidence } = panel.said[t],
          wrong = panel.wrong[t];
        return cell(
          t,
          {
            class: wrong ? (t < panel.entry.asked ? "early" : "wrong") : "",
            style: `--sure: ${confidence.toFixed(3)}`,
            title: `${classes[best]}, ${percent(confidence)}`,
          },
          make("span", {}, classes[best]),
          make("small", {}, `${wrong ? "✗ " : ""}${Math.floor(100 * confidence)}%`),
        );
      };
      const rows = [
        row("after", (t) =>
          cell(
            t,
            {},
            make(
              "button",
              {
                type: "button",
                "aria-label": `Go to token ${t}`,
                "aria-current": t === this.time ? "step" : null,
                onclick: () => {
                  this.pause();
                  this.go(t);
                },
              },
              count(t),
            ),
          ),
        ),
        row("token", (t) => cell(t, { class: "token" }, vocab[this.tokens[t - 1]])),
        ...this.panels.map((panel, number) =>
          row(this.panels.length > 1 ? `model ${number + 1}` : "model", said(panel)),
        ),
      ];
      if (truth.some((right) => right !== null)) {
        rows.push(
          row("truth", (t) =>
            cell(
              t,
              { title: truth[t] === null ? "not known" : classes[truth[t]] },
              truth[t] === null ? "?" : classes[truth[t]],
            ),
          ),
        );
      }
      table.replaceChildren(
        make(
          "table",
          { style: `width: ${72 + column * times.length}px` },
          make(
            "caption",
            {},
            trained
              ? `Predictions after each token; trained on length ${count(trained)}`
              : "Predictions after each token",
          ),
          make("tbody", {}, ...rows),
        ),
      );
      table.hidden = !times.length;
      if (focused) table.querySelector("[aria-current]")?.focus();
    }
  }

  return { View };
})();
