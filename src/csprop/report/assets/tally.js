"use strict";

// A machine that counts, one token at a time: csprop.automata.counting in plain JavaScript. Counts are exact
// up to 2^53, and a page takes far fewer tokens than lead there.
class Tally {
  // What csprop.report.embed writes: start, transitions[state][token][view], answers, increments and window.
  constructor({ start, transitions, answers, increments, window }) {
    Object.assign(this, { transitions, answers, increments, window });
    this.start = { state: start, counts: increments[0].map(() => 0), answer: null };
  }

  // A count as the control sees it.
  seen(count) {
    return clamp(count, -this.window, this.window);
  }

  step({ state, counts }, token) {
    const after = counts.map((count, i) => count + this.increments[token][i]);
    const view = after.reduce((number, count) => number * (2 * this.window + 1) + this.seen(count) + this.window, 0);
    const next = this.transitions[state][token][view];
    return { state: next, counts: after, answer: this.answers[next] };
  }

  // All steps of a sequence, continuing from its first steps if they are known. The first entry is what is
  // before the first token.
  run(tokens, known = []) {
    const steps = known.length ? known : [this.start];
    for (const token of tokens.slice(steps.length - 1)) steps.push(this.step(steps.at(-1), token));
    return steps;
  }
}
