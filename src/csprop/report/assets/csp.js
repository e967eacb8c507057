"use strict";

// A trained model, one token at a time: csprop.nn.block, csprop.nn.released and csprop.nn.model in plain
// JavaScript.
const CSP = (() => {
  const { STATE_LIMIT, OUTPUT_LIMIT, EPSILON, TINY, sigmoid, silu, softplus } = Planes;
  const { mapped, squared, flat, unit, saturate, tensor, planesAt, linear, rotation } = Planes;

  const largest = (scores) => scores.indexOf(Math.max(...scores));

  // Rounded, halves to even numbers.
  const whole = (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

  class Model {
    // What csprop.report.embed writes: config, the options of each layer, weights by name, and codes and
    // kept of a locked model.
    constructor({ config, layers, weights, codes, kept }) {
      this.config = config;
      this.layers = layers;
      this.weights = new Map(Object.entries(weights).map(([name, value]) => [name, tensor(value)]));
      this.origin = Array.from({ length: config.depth }, (_, layer) => this.beginning(layer));
      this.targets = this.origin.map((_, layer) => this.sent(layer));
      this.kept = kept ?? null;
      this.codes = codes ? codes.map((each) => this.points(tensor(each))) : null;
      this.start = this.codes ? this.origin.map((h, layer) => this.nearest(layer, h)) : this.origin;
    }

    weight(name) {
      return this.weights.get(name) ?? null;
    }

    planes(name) {
      return planesAt(this.weight(name), this.config.order, this.config.width);
    }

    points(stacked) {
      const [count, planes, width] = stacked.shape;
      const place = (each) => planesAt(stacked, planes, width, each * planes * width);
      return Array.from({ length: count }, (_, each) => place(each));
    }

    replaces(layer) {
      return ["reset", "switch"].includes(this.layers[layer].decay);
    }

    beginning(layer) {
      return [...this.first(layer), ...Parts.beginning(this.layers[layer])];
    }

    first(layer) {
      const { h0, order, width, places } = this.layers[layer];
      if (h0 === "learned") {
        const planes = this.planes(`blocks.${layer}.h0`);
        return this.replaces(layer) ? unit(planes, 0) : planes;
      }
      const zero = Array.from({ length: order }, () => new Float64Array(width));
      if (h0 === "line") return mapped(zero, (_, d, m) => Number(m === 1));
      return h0 === "place" ? mapped(zero, (_, d, m) => Number(m === 0 && d % places === 0)) : zero;
    }

    // The code nearest to a state, where the distance is the largest over the channels.
    nearest(layer, h) {
      let found = null,
        least = Infinity;
      for (const code of this.codes[layer]) {
        let most = 0;
        for (let d = 0; d < this.config.width && most < least; d++) {
          let apart = 0;
          for (let m = 0; m < h.length; m++) apart += (code[m][d] - h[m][d]) ** 2;
          most = Math.max(most, apart);
        }
        if (most < least) [found, least] = [code, most];
      }
      return found;
    }

    settle(layer, h) {
      if (!this.codes) return h;
      const origin = this.origin[layer];
      return this.nearest(
        layer,
        mapped(h, (x, d, m) => (this.kept[layer][d] ? x : origin[m][d])),
      );
    }

    linear(name, input) {
      return linear(this.weight(`${name}.weight`), this.weight(`${name}.bias`), input);
    }

    // α and γ, one for each channel or one for all.
    decay(layer, z) {
      if (this.layers[layer].decay === "none") return [[1], [0]];
      if (this.layers[layer].decay === "count") return [[1], [1]];
      const delta = this.linear(`blocks.${layer}.gate`, flat(z));
      const both = (alpha, gamma) => [delta.map(alpha), delta.map(gamma)];
      switch (this.layers[layer].decay) {
        case "reset":
          return both(sigmoid, (x) => sigmoid(-x));
        case "switch":
          return both(
            (x) => Number(x > 0),
            (x) => Number(x <= 0),
          );
        case "exp":
          return both((x) => Math.exp(-softplus(x)), softplus);
        case "unit":
          return both(() => 1, softplus);
        default:
          return both(softplus, softplus);
      }
    }

    // What enters a layer's state, before a gate lets it in.
    entering(layer, z) {
      if (this.layers[layer].enter === "point") return unit(this.planes(`blocks.${layer}.point`), 0);
      if (this.layers[layer].decay === "count") return mapped(z, (x, d, m) => (m ? 0 : whole(x)));
      return this.replaces(layer) ? unit(z) : z;
    }

    angles(layer, z, before) {
      const options = this.layers[layer];
      const real = options.angle !== "free" && options.projection === "tanh";
      const angles = Parts.angles(options, this.linear(`blocks.${layer}.angle`, real ? z[0] : flat(z)));
      return options.angle === "accumulated" ? Parts.summed(angles, before) : angles;
    }

    // α, and what enters once a gate has let it in; x is what enters before.
    gated(layer, z, x, held) {
      const { gate_input: input, entrance, recurrence } = this.layers[layer];
      const own = input === "entering" ? x : z;
      const seen = input === "state" ? mapped(z, (value, d, m) => value + held[m][d]) : own;
      const [alpha, gamma] = this.decay(layer, seen);
      const letIn = (gate) => mapped(x, (value, d) => value * Parts.of(gate, d));
      if (entrance === "softplus") return [alpha, letIn(gamma)];
      const entering = letIn(Parts.sine(this.linear(`blocks.${layer}.entrance`, flat(own))));
      const again = recurrence === "cumulative" && input === "entering";
      return [again ? this.decay(layer, entering)[0] : alpha, entering];
    }

    // Rotate every channel; there is a set of angles for each channel, or one for all.
    turned(planes, angles) {
      const { order } = this.config;
      const count = (order * (order - 1)) / 2,
        sets = angles.length / count;
      const matrices = Array.from({ length: sets }, (_, e) => {
        if (order > 2) {
          return rotation(
            Array.from({ length: count }, (_, k) => angles[k * sets + e]),
            order,
          );
        }
        const [cos, sin] = [Math.cos(angles[e]), Math.sin(angles[e])];
        return [
          [cos, -sin],
          [sin, cos],
        ];
      });
      return mapped(planes, (_, d, m) =>
        planes.reduce((sum, plane, k) => sum + matrices[d % sets][m][k] * plane[d], 0),
      );
    }

    coupled(layer, z) {
      const links = this.config.coupling === "shared" ? 1 : this.config.depth - 1;
      const name = `couplings.${(layer - 1) % links}`;
      const u = this.weight(`${name}.u`),
        v = this.weight(`${name}.v`);
      if (!layer || !u) return null;
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

    finish(layer, h, z, before) {
      const { order, activation, skip, recall, norm } = this.layers[layer];
      h = h.slice(0, order);
      if (activation === "boundary") h = mapped(h, silu);
      if (skip) {
        const g = this.weight(`blocks.${layer}.skip`).values;
        h = mapped(h, (x, d, m) => x + sigmoid(g[d]) * z[m][d]);
      }
      if (recall) {
        const r = this.weight(`blocks.${layer}.recall`).values;
        h = mapped(h, (x, d, m) => x + r[d] * before[m][d]);
      }
      if (norm === "complex") return unit(h);
      if (norm === "root") return unit(h, 0, EPSILON);
      h = saturate(h, OUTPUT_LIMIT);
      return norm === "layer" ? this.normalised(layer, h) : h;
    }

    normalised(layer, h) {
      const values = flat(h),
        width = h[0].length;
      const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
      const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length;
      const scale = this.weight(`blocks.${layer}.norm.weight`).values;
      const shift = this.weight(`blocks.${layer}.norm.bias`).values;
      const at = (d, m) => m * width + d;
      return mapped(
        h,
        (x, d, m) => ((x - mean) / Math.sqrt(variance + 1e-5)) * scale[at(d, m)] + shift[at(d, m)],
      );
    }

    decoded(h) {
      const { decoder } = this.config,
        { norm } = this.layers.at(-1);
      if (decoder === "phase") {
        const phase = h[0].map((re, d) => Math.atan2(h[1][d], squared(h, d) < TINY ? 1 : re));
        return this.linear("decoder.linear", phase);
      }
      if (decoder === "complex") {
        const parts = h.map((plane) => this.linear("decoder.linear", plane));
        const { values } = this.weight("decoder.projection"),
          bias = this.weight("decoder.bias").values;
        const classes = bias.length;
        return parts[0].map((re, v) => re * values[v] + parts[1][v] * values[classes + v] + bias[v]);
      }
      return this.linear(
        "decoder.linear",
        flat(decoder === "cos_sin" && norm !== "complex" ? unit(h, 0) : h),
      );
    }

    // The next state of a layer, its gates, and of a router the map that its input chooses.
    recurred(layer, z, before) {
      const options = this.layers[layer],
        { rotate, activation } = options;
      const angles = rotate === "none" ? null : this.angles(layer, z, before);
      const held = before.slice(0, options.order);
      const kept = rotate === "state" ? this.turned(held, angles) : held;
      if (options.places) {
        const map = largest(this.linear(`blocks.${layer}.keys`, flat(z)));
        return { h: this.routed(kept, this.targets[layer][map]), alpha: [1], map };
      }
      let x = this.entering(layer, z);
      if (rotate === "input") x = this.turned(x, angles);
      if (options.input_map !== "none") x = x.map((plane) => this.linear(`blocks.${layer}.map`, plane));
      let [alpha, entering] = this.gated(layer, z, x, held);
      const cumulative = options.recurrence === "cumulative";
      const product = cumulative ? Parts.product(before, alpha) : null;
      if (cumulative) entering = Parts.shared(entering, alpha, product);
      const below = this.coupled(layer, z);
      let h = mapped(
        kept,
        (x, d, m) => Parts.of(alpha, d) * x + entering[m][d] + (below ? below[m][d] : 0),
      );
      h = saturate(h, STATE_LIMIT);
      h = activation === "step" ? mapped(h, silu) : h;
      return { h: [...h, ...Parts.after(options, angles, alpha, product)], alpha };
    }

    // The channel to which each map of a router sends the content of each channel; null for other layers.
    sent(layer) {
      const { places, width } = this.layers[layer];
      if (!places) return null;
      const { values, shape } = this.weight(`blocks.${layer}.maps`);
      return Array.from({ length: shape[0] }, (_, map) => [...values.subarray(map * width, (map + 1) * width)]);
    }

    // The content of every place at the place to which a map sends it.
    routed(kept, targets) {
      const moved = kept.map((plane) => new Float64Array(plane.length));
      kept.forEach((plane, m) => plane.forEach((x, d) => (moved[m][targets[d]] += x)));
      return moved;
    }

    // The places of a router that any sequence leads to.
    reached(layer) {
      const found = new Set();
      this.origin[layer][0].forEach((_, d) => squared(this.origin[layer], d) && found.add(d));
      for (const place of found) for (const map of this.targets[layer]) found.add(map[place]); // grows
      return [...found].sort((a, b) => a - b);
    }

    // What a token enters the first layer as.
    row(token) {
      const { order, width, embedding } = this.config,
        table = this.weight("embedding");
      if (embedding === "complex") return planesAt(table, order, width, token * order * width);
      const narrow = table.shape[1];
      const wide = this.linear("widen", table.values.subarray(token * narrow, (token + 1) * narrow));
      return [embedding === "scalar" ? wide.map(Math.tanh) : wide, new Float64Array(width)];
    }

    // One step: the layers' states, gates and maps, and the scores after one more token.
    step(state, token) {
      const { depth } = this.config;
      let z = this.row(token);
      const states = [],
        gates = [],
        maps = [];
      for (let layer = 0; layer < depth; layer++) {
        const { h: next, alpha, map } = this.recurred(layer, z, state[layer]);
        const h = this.settle(layer, next);
        z = this.finish(layer, h, z, state[layer]);
        states.push(h);
        gates.push(alpha);
        maps.push(map ?? null);
      }
      return { states, gates, maps, scores: this.decoded(z) };
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
