"use strict";

// The explorer: runs a sequence through one or two models, and shows them after any of its tokens.
const Explorer = (() => {
  const LONGEST = 20000,
    MILLISECONDS = 450;
  const byId = (id) => document.getElementById(id);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  class View {
    // `opening` says which models are shown first, and with which sequence; it may be missing.
    constructor(models, tasks, opening) {
      Object.assign(this, { models, tasks, opening, tokens: [], time: 0, playing: null, sample: 0 });
      const first = opening ? models[opening.models[0]] : models.find((model) => model.automaton);
      this.choose(byId("model"), models, first ?? models[0]);
      const listen = (id, name, act) => byId(id).addEventListener(name, act);
      listen("model", "change", () => this.swap());
      listen("beside", "change", () => this.compare());
      listen("sequence", "input", () => this.read());
      listen("time", "input", (event) => this.move(Number(event.target.value)));
      listen("back", "click", () => this.move(this.time - 1));
      listen("forward", "click", () => this.move(this.time + 1));
      listen("play", "click", () => this.toggle());
      listen("another", "click", () => this.another());
      listen("clear", "click", () => this.write([]));
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

    // Change to another model. The sequence stays if the model has the same tokens.
    swap(fresh = false) {
      const task = this.tasks[this.first.task];
      const same = !fresh && JSON.stringify(task.vocab) === JSON.stringify(this.task.vocab);
      this.task = task;
      const kind = ({ name, vocab, classes }) => JSON.stringify([name, vocab, classes]);
      const alike = this.models.filter((model) => model !== this.first && kind(this.tasks[model.task]) === kind(task));
      const twin = alike.find((model) => model.run === this.first.run);
      const printed = alike.find((model) => !model.automaton && model.colour !== (twin ?? this.first).colour);
      const opened = fresh && this.opening ? this.models[this.opening.models[1]] : (printed ?? twin);
      this.choose(byId("beside"), alike, opened);
      byId("beside").prepend(make("option", { value: "", selected: !opened }, "none"));
      byId("beside").closest("label").hidden = !alike.length;
      byId("model").closest("label").firstChild.textContent = alike.length ? "Model 1 " : "Model ";
      const typed = !task.vocab.some((token) => /\s/.test(token)); // else tokens could not be told apart
      byId("sequence").readOnly = !typed;
      const button = (token, number) => {
        const onclick = () => this.write([...this.tokens, number]);
        return make("button", { type: "button", "aria-label": `Add ${token}`, onclick }, token);
      };
      byId("tokens").replaceChildren(...(typed && task.vocab.length > 12 ? [] : task.vocab.map(button)));
      byId("question").textContent = task.description ? `${task.name}: ${task.description}` : task.name;
      byId("question").hidden = this.tasks.every(({ name }) => name === task.name); // it is the page's title
      const begin = fresh && this.opening?.tokens ? this.opening : null;
      this.sample = 0;
      this.compare(same);
      if (begin) this.write(begin.tokens, begin.at);
      else if (!same) this.another();
    }

    compare(run = true) {
      const beside = byId("beside").value;
      const shown = [this.first, ...(beside === "" ? [] : [this.models[Number(beside)]])];
      this.panels = shown.map((model) => new Panel(model, this.tasks[model.task]));
      byId("panels").replaceChildren(...this.panels.map((panel) => panel.element));
      const kinds = shown.flatMap(({ model }) => model?.cells ?? []).map(({ kind }) => kind);
      byId("about-dots").hidden = kinds.every((kind) => kind === "router");
      byId("about-places").hidden = !kinds.includes("router");
      byId("about-counters").hidden = !this.panels.some((panel) => panel.counts);
      if (run) this.run();
    }

    another() {
      const { examples, vocab } = this.task;
      const drawn = () => Array.from({ length: 32 }, () => Math.floor(Math.random() * vocab.length));
      const tokens = examples.length ? examples[this.sample++ % examples.length] : drawn();
      this.write(tokens, Math.min(tokens.length, this.task.trained ? this.task.trained + 1 : tokens.length));
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
      const symbols = words ? text.split(/\s+/).filter(Boolean) : [...text].filter((each) => each.trim());
      const unknown = symbols.findIndex((symbol) => !vocab.includes(symbol));
      const listed = vocab.length > 12 ? `${vocab.slice(0, 12).join(", ")}, …` : vocab.join(", ");
      if (unknown >= 0)
        return this.complain(
          `“${symbols[unknown].slice(0, 40)}” at position ${unknown + 1} is not a token here: write ${listed}.`,
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
      byId("explorer").classList.toggle("stale", Boolean(sentence)); // what is shown belongs to an earlier sequence
    }

    run(time = this.time) {
      this.pause();
      for (const panel of this.panels) panel.run(this.tokens);
      byId("time").max = this.tokens.length;
      this.time = -1;
      this.go(time);
    }

    // Go to a token by hand, which ends a play.
    move(time) {
      this.pause();
      this.go(time);
    }

    go(time) {
      const before = this.time;
      this.time = clamp(time, 0, this.tokens.length);
      byId("time").value = this.time;
      byId("now").textContent = `${count(this.time)} of ${count(this.tokens.length)}`;
      const off = { back: this.time === 0, forward: this.time === this.tokens.length, play: !this.tokens.length };
      for (const id in off) byId(id).setAttribute("aria-disabled", String(off[id])); // which keeps the focus
      this.turn(Math.abs(this.time - before) === 1 && before >= 0 ? before : this.time);
      this.strip();
      if (!this.playing) this.say();
    }

    // For screen readers: once at the end of a play, not at every step of it.
    say() {
      byId("said").textContent = this.panels
        .map((panel) => `${panel.entry.name}: ${panel.sentence(this.time)}`)
        .join(" ");
    }

    // A step of one token is animated, a longer one is not.
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

    strip() {
      Strip.draw(byId("strip"), this);
    }
  }

  return { View };
})();
