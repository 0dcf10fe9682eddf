// Holds the page against another recording. Without it the page shows all that it knows.
(() => {
  "use strict";
  const now = JSON.parse(document.getElementById("recording").textContent);
  const said = document.getElementById("said");
  const file = document.getElementById("file");

  const unit = (ns) => {
    const of = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([size]) => ns >= 0.9995 * size);
    return of ? `${(ns / of[0]).toFixed(2)} ${of[1]}` : `${ns.toFixed(1)} ns`;
  };
  const element = (name, text, kind) => {
    const one = document.createElement(name);
    one.textContent = text;
    if (kind) one.className = kind;
    return one;
  };
  const same = (one, other) =>
    ["service", "method", "way"].every((key) => one[key] === other[key]);
  const nodes = (one, other) => one.from === other.from && one.to === other.to;
  const partner = (one, all) => {
    const alike = all.filter((other) => same(one, other));
    return alike.find((other) => nodes(one, other)) || alike[0];
  };

  const row = (name, leg, before, value) => {
    const line = document.createElement("tr");
    const head = element("th", `${name} `);
    head.scope = "row";
    head.append(element("small", leg));
    const change = before > 0 ? 100 * (value - before) / before : null;
    const tone = change >= 10 ? "worse" : change !== null && change <= -10 ? "better" : "";
    const text = change === null ? "new" : `${change < 0 ? "" : "+"}${change.toFixed(1)}%`;
    line.append(head, element("td", unit(before), "n"), element("td", unit(value), "n"),
      element("td", text, `n ${tone}`));
    return line;
  };
  const table = (one, before) => {
    const body = document.createElement("tbody");
    const whole = { mean: "mean", p50: "p50", p99: "p99", p999: "p99.9" };
    for (const [key, name] of Object.entries(whole)) {
      // A percentile of too few samples is null.
      if (before.whole[key] === null || one.whole[key] === null) continue;
      body.append(row(name, "all", Number(before.whole[key]), one.whole[key]));
    }
    for (const line of one.lines) {
      const old = before.lines.find((it) => it.item === line.item && it.leg === line.leg);
      const mean = old ? Number(old.mean) : 0;
      if (mean !== 0 || line.mean !== 0) body.append(row(line.item, line.leg, mean, line.mean));
    }
    const head = document.createElement("thead");
    const titles = document.createElement("tr");
    ["item", "before", "now", "change"].forEach((text, at) => {
      const title = element("th", text, at > 0 ? "n" : "");
      title.scope = "col";
      titles.append(title);
    });
    head.append(titles);
    const whole_table = document.createElement("table");
    whole_table.append(head, body);
    const box = element("div", "", "scroll");
    box.append(whole_table);
    return box;
  };

  const compare = (before) => {
    if (before.format !== "upbeat bill" || before.version !== 2) {
      throw new Error("it is no recording of this version");
    }
    const parts = [];
    for (const one of now.subjects) {
      const other = partner(one, before.subjects);
      if (!other) continue;
      const title = element("h3", `${one.service}.${one.method} `);
      title.append(element("small", `${one.from} → ${one.to}`));
      parts.push(title, table(one, other));
    }
    document.getElementById("compared").replaceChildren(...parts);
    return parts.length / 2;
  };

  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    try {
      const count = compare(JSON.parse(await chosen.text()));
      said.textContent = `${count} of ${now.subjects.length} methods are in both.`;
    } catch (error) {
      said.textContent = `The file cannot be compared: ${error.message}.`;
    }
  });
  document.getElementById("picker").hidden = false;

  // A link to a folded method unfolds it.
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
