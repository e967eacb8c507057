"use strict";

// The picture of a solid. `Solid` has its states in `places`, its edges and faces, and in `shown` where the states are on
// the canvas.
const Painting = (() => {
  const disc = (pen, x, y, radius) => {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
  };
  const segment = (pen, a, b) => {
    pen.beginPath();
    pen.moveTo(a.x, a.y);
    pen.lineTo(b.x, b.y);
    pen.stroke();
  };
  const polygon = (pen, points) => {
    pen.beginPath();
    points.forEach(({ x, y }, i) => pen[i ? "lineTo" : "moveTo"](x, y));
    pen.fill();
  };

  class Painting {
    // Everything from the back to the front; what is behind is paler.
    paint(pen, colours) {
      const at = this.shown,
        size = this.readable ? 20 : clamp(46 / Math.sqrt(at.length), 4, 7);
      const depth = (states) => states.reduce((sum, s) => sum + at[s].z, 0) / states.length;
      const pale = (z) => 0.14 + 0.86 * clamp((z + 0.75) / 1.35, 0, 1) ** 1.4;
      const parts = [
        ...this.faces.map(({ cycle, kind }) => {
          const z = depth(cycle);
          return [z - 0.03, () => this.face(pen, cycle, colours.moves[kind], pale(z))];
        }),
        ...this.edges.map((edge) => {
          const z = depth([edge.s, edge.to]);
          return [z, () => this.edge(pen, edge, colours.moves[edge.kind], pale(z), 1 + 1.4 * clamp(z + 0.8, 0, 1.4), size)];
        }),
        ...at.map((point, s) => [point.z + 0.16, () => this.corner(pen, s, size * point.near, colours, pale(point.z))]),
      ];
      this.path.slice(1).forEach((to, i) => {
        const s = this.path[i],
          age = this.path.length - 2 - i;
        if (s === to) return;
        parts.push([depth([s, to]) + 0.06, () => this.move(pen, s, to, colours.lit, age)]);
      });
      if (this.ball) parts.push([-0.05, () => this.body(pen, colours)]);
      for (const [, act] of parts.sort((a, b) => a[0] - b[0])) act();
      pen.globalAlpha = 1;
      this.names(pen, colours, size);
    }

    // What the ball is made of: it hides most of what is behind it.
    body(pen, { paper, card }) {
      const { x, y, radius } = this.disc;
      const light = pen.createRadialGradient(x - 0.35 * radius, y - 0.4 * radius, 0.1 * radius, x, y, radius);
      light.addColorStop(0, paper);
      light.addColorStop(1, card);
      pen.globalAlpha = 0.78;
      pen.fillStyle = light;
      disc(pen, x, y, radius);
      pen.fill();
    }

    face(pen, cycle, colour, alpha) {
      pen.globalAlpha = (this.clear ? 0.38 : 0.08) * alpha;
      pen.fillStyle = colour;
      polygon(pen, cycle.map((s) => this.shown[s]));
    }

    edge(pen, { s, to, both }, colour, alpha, width, size) {
      const [a, b] = [this.shown[s], this.shown[to]];
      pen.globalAlpha = alpha;
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = width;
      segment(pen, a, b);
      if (both || this.places.length > 200) return;
      const long = Math.hypot(b.x - a.x, b.y - a.y);
      if (long < 3 * size) return; // there is no room for a head
      const [dx, dy] = [(b.x - a.x) / long, (b.y - a.y) / long],
        tip = 2.5 + 1.3 * width,
        [x, y] = [(a.x + b.x) / 2 + (dx * tip) / 2, (a.y + b.y) / 2 + (dy * tip) / 2];
      const barb = (side) => ({ x: x - dx * tip - side * dy * tip, y: y - dy * tip + side * dx * tip });
      polygon(pen, [{ x, y }, barb(0.5), barb(-0.5)]);
    }

    // A move of the last few tokens; the older, the paler.
    move(pen, s, to, colour, age) {
      pen.globalAlpha = 0.95 * 0.78 ** age;
      pen.strokeStyle = colour;
      pen.lineWidth = age ? 3.5 : 5;
      pen.lineCap = "round";
      segment(pen, this.shown[s], this.shown[to]);
    }

    corner(pen, s, radius, colours, alpha) {
      const { x, y } = this.shown[s],
        now = s === this.path.at(-1),
        age = this.path.length - 1 - this.path.lastIndexOf(s),
        past = !now && this.path.includes(s);
      const filled = (r, fill) => {
        pen.fillStyle = fill;
        disc(pen, x, y, r);
        pen.fill();
      };
      const size = now ? radius * (this.readable ? 1.15 : 1.9) : radius;
      pen.globalAlpha = 1;
      if (now) {
        const far = radius * (this.readable ? 2 : 4.5),
          glow = pen.createRadialGradient(x, y, radius * 0.6, x, y, far);
        glow.addColorStop(0, colours.lit);
        glow.addColorStop(1, `${colours.lit}00`);
        pen.globalAlpha = 0.6;
        filled(far, glow);
        pen.globalAlpha = 1;
        filled(size, colours.lit);
      } else {
        filled(size, colours.paper); // edges end at its rim
        pen.globalAlpha = past && !this.readable ? Math.max(0.5, 0.95 * 0.82 ** age) : alpha;
        filled(size, this.readable ? colours.card : past ? colours.lit : colours.ink);
        if (!this.readable) return;
      }
      pen.globalAlpha = now ? 1 : alpha;
      pen.strokeStyle = now ? colours.ink : past ? colours.lit : colours.soft;
      pen.lineWidth = now || past ? 2 : 1.2;
      disc(pen, x, y, size);
      pen.stroke();
    }

    // Names: of all states if they are few, else of the present one and of the one under the pointer.
    names(pen, colours, size) {
      const now = this.path.at(-1);
      const states = this.readable
        ? [...this.places.keys()].sort((a, b) => this.shown[a].z - this.shown[b].z)
        : [...new Set([now, this.pointed ?? now])];
      pen.font = `600 ${this.readable ? 12 : 15}px ${colours.font}`;
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      for (const s of states) {
        const { x, y, z, near } = this.shown[s],
          text = this.said(s),
          wide = pen.measureText(text).width,
          fits = this.readable && wide < 1.8 * size * near,
          middle = fits ? y : y - (s === now ? 2.2 : 1.4) * size * near - 13;
        pen.globalAlpha = this.readable && s !== now ? 0.25 + 0.75 * clamp((z + 0.9) / 1.2, 0, 1) : 1;
        if (!fits) {
          pen.fillStyle = colours.paper;
          pen.beginPath();
          pen.roundRect(x - wide / 2 - 7, middle - 11, wide + 14, 22, 11);
          pen.fill();
          pen.strokeStyle = s === now ? colours.lit : colours.soft;
          pen.lineWidth = 1.2;
          pen.stroke();
        }
        pen.fillStyle = fits && s === now ? colours.onLit : colours.ink;
        pen.fillText(text, x, middle + 0.5);
      }
      pen.globalAlpha = 1;
    }
  }

  return Painting;
})();
