"use strict";

// The places of a router: above, where the contents were before the last token; below, where its map
// sent them. Places that no sequence leads to are left out.
const Places = (() => {
  const MOST = 40, // in one row; with more, the places form a grid, and only what moves has an arrow
    NUMBERED = 24,
    RADIUS = 0.4,
    APART = 0.6; // between groups
  const held = (planes, d) => planes[0][d] > 0;
  const listed = (numbers) => {
    const few = numbers.slice(0, 8).join(", ");
    return `place${numbers.length > 1 ? "s" : ""} ${few}${numbers.length > 8 ? ", …" : ""}`;
  };

  // Where each place is drawn, above or below, and how large the drawing is.
  function arranged(reached, size) {
    const count = reached.length,
      inRow = count <= MOST;
    const columns = inRow ? count : Math.ceil(Math.sqrt(2 * count)),
      fall = inRow ? Math.max(2.2, count / 6) : 0;
    const groups = [...new Set(reached.map((place) => Math.floor(place / size)))];
    const shift = (place) => (inRow ? APART * groups.indexOf(Math.floor(place / size)) : 0);
    const at = new Map(reached.map((place, i) => [place, [(i % columns) + shift(place), Math.floor(i / columns)]]));
    const width = columns + (inRow ? APART * (groups.length - 1) : 0);
    return { inRow, fall, at, width, height: Math.ceil(count / columns) + fall };
  }

  class Places {
    constructor(model, layer, task) {
      Object.assign(this, { layer, task, router: model.layers[layer] });
      this.reached = this.router.reached();
      this.arrows = make("g");
      this.head = Arrows.head(0.24);
      this.arrangement = arranged(this.reached, this.router.places);
      const { inRow, width, height } = this.arrangement;
      this.above = inRow ? this.row(0) : null;
      this.below = this.row(this.arrangement.fall);
      this.caption = make("figcaption");
      const rows = [this.above, this.below].filter(Boolean);
      const drawn = rows.map((row) => make("g", {}, ...row.values()));
      this.svg = make(
        "svg",
        {
          viewBox: `-0.5 -0.5 ${width} ${height}`,
          role: "img",
          style: `max-width: ${Math.min(34, 2.8 * width).toFixed(1)}rem`,
        },
        this.head.defined,
        ...(inRow ? [this.arrows, ...drawn] : [...drawn, this.arrows]),
      );
      this.element = make("figure", { class: "places" }, this.svg, this.caption);
    }

    row(down) {
      return new Map(
        this.reached.map((place) => {
          const [x, y] = this.arrangement.at.get(place);
          const body = make("circle", { cx: x, cy: y + down, r: RADIUS });
          const node = make("g", { class: "place" }, make("title", {}, `place ${place}`), body);
          if (this.reached.length <= NUMBERED)
            node.append(make("text", { x, y: y + down, dy: "0.13" }, place));
          return [place, node];
        }),
      );
    }

    // Show what has happened at step t, and what is in the places after it.
    show(steps, t) {
      const now = steps[t].states[this.layer],
        before = t ? steps[t - 1].states[this.layer] : null;
      this.light(this.below, now);
      if (this.above) this.light(this.above, before);
      const map = t ? steps[t].maps[this.layer] : null;
      this.draw(map === null ? null : this.router.targets[map], before);
      this.caption.textContent = this.sentence(now, before, map);
      this.svg.setAttribute("aria-label", this.caption.textContent);
    }

    light(row, planes) {
      for (const [place, node] of row) node.classList.toggle("lit", planes !== null && held(planes, place));
    }

    // The arrows of a map; those along which something moved come last, on top of the others.
    draw(targets, before) {
      const { inRow, fall, at } = this.arrangement;
      const moved = this.reached.filter((place) => before && held(before, place));
      const still = this.reached.filter((place) => inRow && !moved.includes(place));
      const arrow = (lit) => (from) => {
        const [x0, y0] = at.get(from),
          [x1, y1] = at.get(targets[from]);
        const [dx, dy] = [x1 - x0, y1 + fall - y0],
          length = Math.hypot(dx, dy);
        if (!length) return "";
        const point = (along) => `${x0 + (dx * along) / length},${y0 + (dy * along) / length}`;
        return make("path", {
          class: lit ? "arrow lit" : "arrow",
          d: `M${point(RADIUS)}L${point(length - RADIUS - 0.04)}`,
          "marker-end": this.head.worn,
        });
      };
      this.arrows.replaceChildren(...(targets ? [...still.map(arrow(false)), ...moved.map(arrow(true))] : []));
    }

    full(planes) {
      return this.reached.filter((place) => held(planes, place));
    }

    sentence(now, before, map) {
      const { width, cell } = this.router;
      const unused = width - this.reached.length;
      const left = unused ? ` (${count(unused)} of them, which nothing reaches, are left out)` : "";
      const name = `layer ${this.layer + 1}, a router of ${count(width)} places${left}`;
      const [from, to] = [before && listed(this.full(before)), listed(this.full(now))];
      if (map === null) return `${name}: the content is in ${to}`;
      const who = this.layer || cell.maps ? `map ${map}` : this.task.vocab[map];
      const what = from === to ? `leaves the content in ${to}` : `sends the content from ${from} to ${to}`;
      return `${name}: ${who} ${what}`;
    }
  }

  return Places;
})();
