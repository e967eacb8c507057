"use strict";

// The kinds of cells, as in csprop.cells. Each has three functions:
//   start(layer)                       the state before the first token
//   advance(layer, z, before, coupled) the next state h, and alpha, the part of the state before that the gate keeps
//   finish(layer, h, z, before)        the output
// `layer` has the cell's options and its weights (csp.js); z is the input, `before` the state before.
const Cells = (() => {
  const { sigmoid, silu, softplus, mapped, flat, unit, saturate, rotated } = Planes;
  const STATE_LIMIT = 2 ** 60,
    ANGLE_LIMIT = 2 ** 10,
    OUTPUT_LIMIT = 2 ** 20;
  const DECAYS = {
    softplus: [softplus, softplus],
    exp: [(x) => Math.exp(-softplus(x)), softplus],
    unit: [() => 1, softplus],
  };
  const at = (gate, d) => gate[d % gate.length]; // there is one gate for each channel, or one for all
  const zeros = ({ order, width }) => Array.from({ length: order }, () => new Float64Array(width));
  const roundToEven = (x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

  const recur = (alpha, before, entering) =>
    saturate(mapped(before, (x, d, m) => at(alpha, d) * x + entering[m][d]), STATE_LIMIT);

  function skipped(layer, h, z) {
    if (layer.cell.skip === false) return h;
    const { values } = layer.weight("skip");
    return mapped(h, (x, d, m) => x + sigmoid(values[d]) * z[m][d]);
  }

  // LayerNorm over all planes.
  function layerNorm(layer, h) {
    const values = flat(h),
      mean = values.reduce((sum, x) => sum + x, 0) / values.length,
      variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length;
    const [scale, shift] = ["weight", "bias"].map((name) => layer.weight(`norm.${name}`).values);
    return mapped(h, (x, d, m) => {
      const place = m * h[0].length + d;
      return ((x - mean) / Math.sqrt(variance + 1e-5)) * scale[place] + shift[place];
    });
  }

  const paper = {
    start: (layer) => (layer.cell.h0 === "learned" ? layer.planes("h0") : zeros(layer)),
    advance(layer, z, before, coupled) {
      const { rotate, decay, activation } = layer.cell;
      const angles = rotate === "none" ? null : layer.linear("angle", z[0]).map((x) => Math.PI * Math.tanh(x));
      const turned = (name, planes) => (rotate === name ? rotated(planes, angles) : planes);
      const delta = layer.linear("gate", flat(z));
      const [alpha, gamma] = DECAYS[decay].map((f) => delta.map(f));
      const entering = mapped(turned("input", z), (x, d, m) => at(gamma, d) * x + (coupled ? coupled[m][d] : 0));
      const h = recur(alpha, turned("state", before), entering);
      return { h: activation === "step" ? mapped(h, silu) : h, alpha };
    },
    finish(layer, h, z) {
      const { activation, norm } = layer.cell;
      const sum = skipped(layer, activation === "boundary" ? mapped(h, silu) : h, z);
      if (norm === "complex") return unit(sum);
      const output = saturate(sum, OUTPUT_LIMIT);
      return norm === "layer" ? layerNorm(layer, output) : output;
    },
  };

  // A gate of 1 keeps the state, a gate of 0 replaces it by a point.
  function replaced(layer, z, before, point) {
    const alpha = layer.linear("gate", flat(z)).map((x) => Number(x > 0));
    return { h: recur(alpha, before, mapped(point, (x, d) => (1 - at(alpha, d)) * x)), alpha };
  }

  const rotor = {
    start: (layer) => unit(layer.planes("h0"), 0),
    advance(layer, z, before) {
      const angles = layer.linear("angle", flat(z)).map((x) => Math.max(-ANGLE_LIMIT, Math.min(ANGLE_LIMIT, x)));
      if (!layer.weight("parts")) return replaced(layer, z, rotated(before, angles), unit(z));
      // Where there is a k, angles are whole multiples of 2π/k, and so are phases of states from h_0.
      const parts = layer.weight("parts").values,
        whole = (x, d) => (parts[d] ? (roundToEven((x * parts[d]) / (2 * Math.PI)) / parts[d]) * 2 * Math.PI : x),
        { h, alpha } = replaced(layer, z, rotated(before, angles.map(whole)), unit(z)),
        [re, im] = rotor.start(layer),
        phases = re.map((x, d) => whole(Math.atan2(x * h[1][d] - im[d] * h[0][d], x * h[0][d] + im[d] * h[1][d]), d)),
        snapped = rotated([re, im], phases);
      return { h: mapped(h, (x, d, m) => (parts[d] ? snapped[m][d] : x)), alpha };
    },
    finish(layer, h, z, before) {
      const recall = layer.cell.recall ? layer.weight("recall").values : null;
      const sum = skipped(layer, h, z);
      return saturate(recall ? mapped(sum, (x, d, m) => x + recall[d] * before[m][d]) : sum, OUTPUT_LIMIT);
    },
  };

  const router = {
    start: (layer) => mapped(zeros(layer), (_, d, m) => Number(m === 0 && d % layer.places === 0)),
    // The content of every place moves to the place to which a map sends it.
    advance(layer, z, before) {
      const scores = layer.linear("keys", flat(z)),
        map = scores.indexOf(Math.max(...scores)),
        h = zeros(layer);
      before.forEach((plane, m) => plane.forEach((x, d) => (h[m][layer.targets[map][d]] += x)));
      return { h, alpha: [1], map };
    },
    finish: (layer, h) => saturate(h, OUTPUT_LIMIT),
  };

  const counter = {
    start: (layer) => mapped(zeros(layer), (_, d, m) => Number(m === 1)),
    advance: (layer, z, before) => ({
      h: recur([1], before, mapped(z, (x, d, m) => (m ? 0 : roundToEven(x)))),
      alpha: [1],
    }),
    finish: (layer, h, z) => unit(skipped(layer, h, z)),
  };

  const switches = {
    start: rotor.start,
    advance: (layer, z, before) => replaced(layer, z, before, unit(layer.planes("point"), 0)),
    finish: (layer, h, z) => saturate(skipped(layer, h, z), OUTPUT_LIMIT),
  };

  return { paper, rotor, router, counter, switch: switches };
})();
