"use strict";

// Axes of charts: from values to places and back, the range that is shown, and round numbers to name.
const Scales = (() => {
  const forward = (axis, value) => (axis.log ? Math.log10(value) : value);
  const backward = (axis, value) => (axis.log ? 10 ** value : value);
  const shown = (axis, value) => (axis.percent ? percent(value) : short(value));

  // A line's point nearest to an x that it reaches.
  function nearest(points, x) {
    if (!points.length || x < points[0][0] || x > points.at(-1)[0]) return null;
    return points.reduce((best, point) =>
      Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best,
    );
  }

  function ticks(axis, low, high, most) {
    if (axis.log) {
      const decades = Math.max(1, Math.ceil((high - low) / most));
      const first = Math.floor(low / decades) * decades,
        found = [];
      const between = decades > 1 || high - low > most / 2 ? [1] : [1, 2, 5];
      for (let power = first; power <= high; power += decades)
        found.push(...between.map((digit) => digit * 10 ** power));
      const inside = found.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
      return inside.length > 1 ? inside : ticks({ whole: axis.whole }, 10 ** low, 10 ** high, most);
    }
    const rough = (high - low) / most || 1,
      power = 10 ** Math.floor(Math.log10(rough));
    let step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    if (axis.whole) step = Math.max(1, step);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high + step * 1e-6; k++) found.push(k * step || 0); // never −0
    return found;
  }

  function range(axis, values, pad) {
    const known = values.filter((value) => Number.isFinite(value) && (!axis.log || value > 0));
    let low = forward(axis, Math.min(...known)),
      high = forward(axis, Math.max(...known));
    if (!known.length) [low, high] = [0, 1];
    if (axis.percent) [low, high] = [Math.min(low, 0), 1];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const room = pad * (high - low);
    return [low - room, high + room];
  }

  return { forward, backward, shown, nearest, ticks, range };
})();
