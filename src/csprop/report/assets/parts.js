"use strict";

// What parts of the authors' code add to a step: angles by other projections, sums of angles, products of
// decays. A state has h in its first two planes, then e^{iΘ} of a summed angle, then the product.
const Parts = (() => {
  const { ANGLE_LIMIT, TINY, mapped } = Planes;
  const DIVISOR = 1e-9,
    LEAST = 1e-30;
  const of = (gate, d) => gate[d % gate.length];

  // The angles of a step from what their projection says; of pairs (x, y), all x come first.
  function angles({ angle, projection }, said) {
    if (angle === "free") return said.map((x) => Math.max(-ANGLE_LIMIT, Math.min(ANGLE_LIMIT, x)));
    const bounded = said.map(Math.tanh),
      half = said.length / 2;
    if (projection !== "atan2") return bounded.map((x) => Math.PI * x);
    return bounded.slice(0, half).map((x, e) => {
      const y = bounded[half + e];
      return Math.atan2(y, x ** 2 + y ** 2 < TINY ? 1 : x);
    });
  }

  // The sums of all angles so far, of which the state has cos and sin.
  const summed = (angles, [, , cos, sin]) => angles.map((x, e) => x + Math.atan2(sin[e], cos[e]));

  const sine = (said) => said.map((x) => (1 + Math.sin(x)) / 2);

  // What enters by a sum over all steps: α P / (P + 1e-9) of it, P the product of decays before.
  function shared(entering, alpha, product) {
    const share = (d) => product[d] / (product[d] + DIVISOR);
    return mapped(entering, (x, d) => of(alpha, d) * share(d) * x);
  }

  // The product of decays before a step, for each channel.
  const product = (before, alpha) =>
    before.at(-1).map((_, d, all) => Math.max(LEAST, all[d % alpha.length]));

  // The planes of a state beside h, before the first token.
  function beginning({ angle, recurrence, width }) {
    const ones = () => new Float64Array(width).fill(1);
    return [
      ...(angle === "accumulated" ? [ones(), new Float64Array(width)] : []),
      ...(recurrence === "cumulative" ? [ones()] : []),
    ];
  }

  // Those planes after a step.
  function after({ angle, recurrence, width }, angles, alpha, product) {
    const channels = Array.from({ length: width }, (_, d) => d);
    const plane = (f) => Float64Array.from(channels, f);
    return [
      ...(angle === "accumulated" ? [Math.cos, Math.sin].map((f) => plane((d) => f(of(angles, d)))) : []),
      ...(recurrence === "cumulative" ? [plane((d) => product[d] * of(alpha, d))] : []),
    ];
  }

  return { of, angles, summed, sine, shared, product, beginning, after };
})();
