"use strict";

// The strip of the explorer: the answer after each token, as many as there is room for, around the
// present one.
const Strip = (() => {
  const HEAD = 104; // the width of the names of the rows

  function draw(place, view) {
    const { vocab, classes, trained } = view.task,
      { truth } = view.panels[0];
    const longest = Math.max(...[...vocab, ...classes].map((name) => name.length));
    const column = clamp(8 * longest + 12, 46, 110);
    const room = Math.max(2, Math.floor((place.clientWidth - HEAD) / column));
    const first = clamp(
      view.time - Math.floor(room / 2),
      1,
      Math.max(1, view.tokens.length - room + 1),
    );
    const times = Array.from({ length: Math.min(room, view.tokens.length) }, (_, i) => first + i);
    const focused = place.contains(document.activeElement);
    const cell = (t, attributes, ...children) =>
      make(
        "td",
        {
          ...attributes,
          class: [attributes.class, t === view.time && "now", t === trained && "trained"]
            .filter(Boolean)
            .join(" "),
        },
        ...children,
      );
    const row = (name, makeCell) =>
      make("tr", {}, make("th", { scope: "row" }, ...name), ...times.map(makeCell));
    const said = (panel) => (t) => {
      const { best, confidence } = panel.said[t],
        wrong = panel.wrong[t],
        known = confidence !== null;
      return cell(
        t,
        {
          class: `c${panel.entry.colour} ${wrong ? (t < panel.entry.asked ? "early" : "wrong") : ""}`,
          style: known ? `--sure: ${confidence.toFixed(3)}` : null,
          title: known ? `${classes[best]}, ${percent(confidence)}` : classes[best],
        },
        make("span", {}, known || !wrong ? classes[best] : `✗ ${classes[best]}`),
        ...(known ? [make("small", {}, `${wrong ? "✗ " : ""}${Math.floor(100 * confidence)}%`)] : []),
      );
    };
    const rows = [
      row(["after"], (t) =>
        cell(
          t,
          {},
          make(
            "button",
            {
              type: "button",
              "aria-label": `Go to token ${t}`,
              "aria-current": t === view.time ? "step" : null,
              onclick: () => {
                view.pause();
                view.go(t);
              },
            },
            count(t),
          ),
        ),
      ),
      row(["token"], (t) => cell(t, { class: "token" }, vocab[view.tokens[t - 1]])),
      ...view.panels.map((panel, number) =>
        row(
          [swatch(panel.entry.colour), view.panels.length > 1 ? `model ${number + 1}` : "model"],
          said(panel),
        ),
      ),
    ];
    if (truth.some((right) => right !== null)) {
      rows.push(
        row(["truth"], (t) =>
          cell(
            t,
            { title: truth[t] === null ? "not known" : classes[truth[t]] },
            truth[t] === null ? "?" : classes[truth[t]],
          ),
        ),
      );
    }
    place.replaceChildren(
      make(
        "table",
        { style: `width: ${HEAD + column * times.length}px` },
        make(
          "caption",
          {},
          trained
            ? `Predictions after each token; trained on length ${count(trained)}`
            : "Predictions after each token",
        ),
        make("tbody", {}, ...rows),
      ),
    );
    place.hidden = !times.length;
    if (focused) place.querySelector("[aria-current]")?.focus();
  }

  return { draw };
})();
