"use strict";

// Arithmetic on states. A state is a list of M planes, each an array with a number for every channel.
const Planes = (() => {
  const EPSILON = 1e-8,
    TINY = 1e-30;
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));
  const silu = (x) => x * sigmoid(x);
  const softplus = (x) => (x > 20 ? x : Math.log1p(Math.exp(x)));
  const mapped = (planes, f) => planes.map((plane, m) => plane.map((x, d) => f(x, d, m)));
  const squared = (planes, d) => planes.reduce((sum, plane) => sum + plane[d] ** 2, 0);

  function flat(planes) {
    const width = planes[0].length,
      all = new Float64Array(planes.length * width);
    planes.forEach((plane, m) => all.set(plane, m * width));
    return all;
  }

  function scaled(planes, factor) {
    const factors = planes[0].map((_, d) => factor(d));
    return mapped(planes, (x, d) => x * factors[d]);
  }

  const unit = (planes, epsilon = EPSILON) =>
    scaled(planes, (d) => 1 / (Math.sqrt(squared(planes, d) + TINY) + epsilon));

  // A channel beyond a limit is scaled back to it. The division comes first, because a square might overflow.
  function saturate(planes, limit) {
    const parts = mapped(planes, (x) => x / limit);
    return scaled(planes, (d) => 1 / Math.sqrt(Math.max(1, squared(parts, d))));
  }

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
    if (order === 2) {
      const [cos, sin] = [Math.cos(angles[0]), Math.sin(angles[0])];
      return [[cos, -sin], [sin, cos]];
    }
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

  // Rotate every channel. There is a set of angles for each channel, or one for all.
  function rotated(planes, angles) {
    const order = planes.length,
      count = (order * (order - 1)) / 2,
      sets = angles.length / count;
    const matrices = Array.from({ length: sets }, (_, set) =>
      rotation(Array.from({ length: count }, (_, k) => angles[k * sets + set]), order),
    );
    return mapped(planes, (_, d, m) =>
      planes.reduce((sum, plane, k) => sum + matrices[d % sets][m][k] * plane[d], 0),
    );
  }

  return { TINY, sigmoid, silu, softplus, mapped, squared, flat, unit, saturate, tensor, planesAt, linear, rotated };
})();
