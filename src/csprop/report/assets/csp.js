"use strict";

// A trained model, one token at a time: csprop.nn.model in plain JavaScript.
const CSP = (() => {
  const { TINY, mapped, squared, flat, unit, tensor, planesAt, linear } = Planes;

  // A layer: its cell, its weights, and of a router the channel to which each map sends each channel.
  class Layer {
    constructor(cell, number, { weights, order, width }) {
      Object.assign(this, { cell, number, weights, order, width, kind: Cells[cell.kind] });
      this.routes = cell.kind === "router";
      if (this.routes) {
        const { values, shape } = this.weight("maps"); // csprop.report.embed writes the targets alone
        this.places = cell.places || width;
        this.targets = Array.from({ length: shape[0] }, (_, map) => [...values.subarray(map * width, (map + 1) * width)]);
      }
      this.start = this.kind.start(this);
    }

    weight(name) {
      return this.weights.get(`blocks.${this.number}.${name}`) ?? null;
    }

    planes(name) {
      return planesAt(this.weight(name), this.order, this.width);
    }

    linear(name, input) {
      return linear(this.weight(`${name}.weight`), this.weight(`${name}.bias`), input);
    }

    // The places of a router that any sequence leads to.
    reached() {
      const found = new Set();
      this.start[0].forEach((_, d) => squared(this.start, d) && found.add(d));
      for (const place of found) for (const map of this.targets) found.add(map[place]); // grows
      return [...found].sort((a, b) => a - b);
    }
  }

  class Model {
    // `model` is the configuration as config.json has it; a locked model also has codes and the channels it uses.
    constructor({ model, weights, codes, kept }) {
      this.config = model;
      this.width = model.width;
      this.order = Math.max(2, ...model.cells.map((cell) => cell.order ?? 2));
      this.weights = new Map(Object.entries(weights).map(([name, value]) => [name, tensor(value)]));
      this.layers = model.cells.map((cell, number) => new Layer(cell, number, this));
      this.kept = kept ?? null;
      this.codes = codes ? codes.map((each) => this.points(tensor(each))) : null;
      this.start = this.layers.map(({ start }, layer) => (this.codes ? this.nearest(layer, start) : start));
    }

    points(stacked) {
      const [count, planes, width] = stacked.shape;
      return Array.from({ length: count }, (_, each) => planesAt(stacked, planes, width, each * planes * width));
    }

    // The code nearest to a state, where the distance is the largest over the channels.
    nearest(layer, h) {
      let nearest = null,
        least = Infinity;
      for (const code of this.codes[layer]) {
        let most = 0;
        for (let d = 0; d < this.width && most < least; d++) {
          let distance = 0;
          for (let m = 0; m < h.length; m++) distance += (code[m][d] - h[m][d]) ** 2;
          most = Math.max(most, distance);
        }
        if (most < least) [nearest, least] = [code, most];
      }
      return nearest;
    }

    // The state of a locked model snaps to a code; channels that it does not use stay at the start.
    snap(layer, h) {
      if (!this.codes) return h;
      const { start } = this.layers[layer];
      return this.nearest(layer, mapped(h, (x, d, m) => (this.kept[layer][d] ? x : start[m][d])));
    }

    linear(name, input) {
      return linear(this.weights.get(`${name}.weight`), this.weights.get(`${name}.bias`), input);
    }

    // What the coupling u vᵀ adds to the recurrence of a layer, or null.
    coupled(layer, z) {
      if (!layer) return null;
      const [u, v] = ["u", "v"].map(
        (name) => this.weights.get(`couplings.${layer - 1}.${name}`) ?? this.weights.get(`couplings.0.${name}`),
      );
      if (!u) return null;
      const [width, rank] = u.shape;
      return z.map((plane) => {
        const inner = Array.from({ length: rank }, (_, r) =>
          plane.reduce((sum, x, d) => sum + x * v.values[d * rank + r], 0),
        );
        return Float64Array.from({ length: width }, (_, d) =>
          inner.reduce((sum, x, r) => sum + x * u.values[d * rank + r], 0),
        );
      });
    }

    decoded(h) {
      const { decoder } = this.config;
      if (decoder === "phase") {
        const phase = h[0].map((re, d) => Math.atan2(h[1][d], squared(h, d) < TINY ? 1 : re));
        return this.linear("decoder.linear", phase);
      }
      if (decoder === "complex") {
        const parts = h.map((plane) => this.linear("decoder.linear", plane));
        const projection = this.weights.get("decoder.projection").values,
          bias = this.weights.get("decoder.bias").values;
        return parts[0].map((re, v) => re * projection[v] + parts[1][v] * projection[bias.length + v] + bias[v]);
      }
      const { cell } = this.layers.at(-1);
      const normed = cell.kind === "counter" || cell.norm === "complex";
      return this.linear("decoder.linear", flat(decoder === "cos_sin" && !normed ? unit(h, 0) : h));
    }

    // One step: the layers' states, gates and maps, and the scores after one more token.
    step(state, token) {
      const next = { states: [], gates: [], maps: [], scores: null };
      let z = planesAt(this.weights.get("embedding"), this.order, this.width, token * this.order * this.width);
      this.layers.forEach((layer, number) => {
        const before = state[number];
        const { h, alpha, map = null } = layer.kind.advance(layer, z, before, this.coupled(number, z));
        const snapped = this.snap(number, h);
        z = layer.kind.finish(layer, snapped, z, before);
        next.states.push(snapped);
        next.gates.push(alpha);
        next.maps.push(map);
      });
      next.scores = this.decoded(z);
      return next;
    }

    // All steps of a sequence, continuing from its first steps if they are known. The first entry is the
    // state before the first token, which has no scores.
    run(tokens, known = []) {
      const steps = known.length ? known : [{ states: this.start, gates: null, maps: null, scores: null }];
      for (const token of tokens.slice(steps.length - 1))
        steps.push(this.step(steps.at(-1).states, token));
      return steps;
    }
  }

  const softmax = (scores) => {
    const largest = Math.max(...scores);
    const powers = Array.from(scores, (x) => Math.exp(x - largest));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((x) => x / sum);
  };

  return { Model, softmax };
})();
