"use strict";

// Arithmetic on states. A state is a list of M planes, each an array with a number for every channel.
const Planes = (() => {
  const STATE_LIMIT = 2 ** 60,
    ANGLE_LIMIT = 2 ** 10,
    OUTPUT_LIMIT = 2 ** 20,
    EPSILON = 1e-8,
    TINY = 1e-30;
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));
  const silu = (x) => x * sigmoid(x);
  const softplus = (x) => (x > 20 ? x : Math.log1p(Math.exp(x)));
  const mapped = (planes, f) => planes.map((plane, m) => plane.map((x, d) => f(x, d, m)));
  const squared = (planes, d) => planes.reduce((sum, plane) => sum + plane[d] ** 2, 0);
  const scaled = (planes, factors) => mapped(planes, (x, d) => x * factors[d]);

  function flat(planes) {
    const width = planes[0].length,
      all = new Float64Array(planes.length * width);
    planes.forEach((plane, m) => all.set(plane, m * width));
    return all;
  }

  const unit = (planes, epsilon = EPSILON, under = TINY) =>
    scaled(
      planes,
      planes[0].map((_, d) => 1 / (Math.sqrt(squared(planes, d) + under) + epsilon)),
    );

  const saturate = (planes, limit) => {
    const overshoot = (d) =>
      Math.max(
        1,
        planes.reduce((sum, plane) => sum + (plane[d] / limit) ** 2, 0),
      );
    return scaled(
      planes,
      planes[0].map((_, d) => 1 / Math.sqrt(overshoot(d))),
    );
  };

  // A tensor as it is embedded: its shape, and float32 numbers in base64.
  function tensor({ shape, data }) {
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    return { shape, values: new Float32Array(bytes.buffer) };
  }

  // The planes (M, D) that begin at a place of a tensor.
  function planesAt({ values }, order, width, place = 0) {
    return Array.from({ length: order }, (_, m) => {
      const from = place + m * width;
      return new Float64Array(values.subarray(from, from + width));
    });
  }

  function linear(weight, bias, input) {
    const [outputs, inputs] = weight.shape,
      { values } = weight;
    const output = new Float64Array(outputs);
    for (let row = 0, at = 0; row < outputs; row++) {
      let sum = bias ? bias.values[row] : 0;
      for (let i = 0; i < inputs; i++) sum += values[at++] * input[i];
      output[row] = sum;
    }
    return output;
  }

  const product = (a, b) =>
    a.map((row) => b[0].map((_, j) => row.reduce((sum, x, k) => sum + x * b[k][j], 0)));

  // exp of the skew-symmetric matrix of some angles, one for each pair of planes: a rotation.
  function rotation(angles, order) {
    const generator = Array.from({ length: order }, () => new Array(order).fill(0));
    let k = 0,
      size = 0;
    for (let i = 0; i < order; i++) {
      for (let j = i + 1; j < order; j++, k++) {
        generator[j][i] = angles[k];
        generator[i][j] = -angles[k];
        size += Math.abs(angles[k]);
      }
    }
    const halvings = Math.max(0, Math.ceil(Math.log2(size + TINY)) + 4);
    const small = generator.map((row) => row.map((x) => x / 2 ** halvings));
    let term = small.map((row, i) => row.map((_, j) => Number(i === j)));
    let sum = term;
    for (let n = 1; n <= 10; n++) {
      term = product(term, small).map((row) => row.map((x) => x / n));
      sum = sum.map((row, i) => row.map((x, j) => x + term[i][j]));
    }
    for (let n = 0; n < halvings; n++) sum = product(sum, sum);
    return sum;
  }

  return {
    STATE_LIMIT, ANGLE_LIMIT, OUTPUT_LIMIT, EPSILON, TINY,
    sigmoid, silu, softplus,
    mapped, squared, flat, unit, saturate, tensor, planesAt, linear, rotation,
  };
})();
