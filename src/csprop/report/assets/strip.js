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
    const last = Math.max(1, view.tokens.length - room + 1);
    const first = clamp(view.time - Math.floor(room / 2), 1, last);
    const times = Array.from({ length: Math.min(room, view.tokens.length) }, (_, i) => first + i);
    const focused = place.contains(document.activeElement);
    const cell = (t, attributes, ...children) => {
      const names = [attributes.class, t === view.time && "now", t === trained && "trained"].filter(Boolean);
      return make("td", { ...attributes, class: names.join(" ") }, ...children);
    };
    const line = (name, makeCell) => make("tr", {}, make("th", { scope: "row" }, ...name), ...times.map(makeCell));
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
    const go = (t) => {
      const attributes = { type: "button", "aria-label": `Go to token ${t}`, onclick: () => view.move(t) };
      return make("button", { ...attributes, "aria-current": t === view.time ? "step" : null }, count(t));
    };
    const right = (t) => cell(t, { title: classes[truth[t]] ?? "not known" }, classes[truth[t]] ?? "?");
    const model = (number) => (view.panels.length > 1 ? `model ${number + 1}` : "model");
    const rows = [
      line(["after"], (t) => cell(t, {}, go(t))),
      line(["token"], (t) => cell(t, { class: "token" }, vocab[view.tokens[t - 1]])),
      ...view.panels.map((panel, number) => line([swatch(panel.entry.colour), model(number)], said(panel))),
      ...(truth.some((each) => each !== null) ? [line(["truth"], right)] : []),
    ];
    const caption = `Predictions after each token${trained ? `; trained on length ${count(trained)}` : ""}`;
    place.replaceChildren(
      make(
        "table",
        { style: `width: ${HEAD + column * times.length}px` },
        make("caption", {}, caption),
        make("tbody", {}, ...rows),
      ),
    );
    place.hidden = !times.length;
    if (focused) place.querySelector("[aria-current]")?.focus();
  }

  return { draw };
})();
