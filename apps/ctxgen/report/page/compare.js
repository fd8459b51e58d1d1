// Two reports next to each other: the differences first.

const differences = (a, b) => {
  const names = (model) => model.nodes.reduce((all, node) => (all.has(node.name) ? all : all.set(node.name, node)), new Map());
  const [ours, theirs] = [names(a), names(b)];
  const rows = [];
  for (const [name, one] of ours) {
    const other = theirs.get(name);
    if (!other) { rows.push({ name, what: "only in A", a: one, order: 2 }); continue; }
    const changes = [];
    if (one.op_type !== other.op_type) changes.push(`${clean(one.op_type, 30)} → ${clean(other.op_type, 30)}`);
    if (one.state !== other.state) changes.push(`${stateName(one.state)} → ${stateName(other.state)}`);
    if (one.precision !== other.precision) changes.push(`${one.precision} → ${other.precision}`);
    if (one.implementation !== other.implementation) changes.push(`${clean(one.implementation, 30) || "–"} → ${clean(other.implementation, 30) || "–"}`);
    const layout = (node) => node.steps.filter((step) => !step.moves).map((step) => step.layouts).join("; ");
    if (changes.length === 0 && layout(one) !== layout(other)) changes.push("layouts");
    if (changes.length > 0) rows.push({ name, what: changes.join(", "), a: one, b: other, order: one.state !== other.state ? 0 : 1 });
  }
  for (const [name, other] of theirs) if (!ours.has(name)) rows.push({ name, what: "only in B", b: other, order: 2 });
  for (const row of rows) row.delta = row.a && row.b && known(row.a.time) && known(row.b.time) ? row.b.time - row.a.time : undefined;
  rows.sort((x, y) => x.order - y.order || Math.abs(y.delta || 0) - Math.abs(x.delta || 0));
  return rows.map((row, id) => ({ ...row, id }));
};

const comparison = (a, b) => {
  const value = (model, path) => path.split(".").reduce((at, key) => (known(at) ? at[key] : undefined), model.report.measured);
  const rows = [];
  const add = (label, x, y, show) => { if (known(x) && known(y) && x !== y) rows.push([label, show(x), show(y), x > 0 ? (y / x).toFixed(2) : "–"]); };
  const milli = (number) => micros(1000 * number);
  add("one run (median)", value(a, "latency_ms.p50"), value(b, "latency_ms.p50"), milli);
  add("load", value(a, "load_ms"), value(b, "load_ms"), milli);
  add("first run", value(a, "first_run_ms"), value(b, "first_run_ms"), milli);
  add("private memory", value(a, "private_bytes"), value(b, "private_bytes"), bytes);
  add("nodes", a.nodes.length, b.nodes.length, count);
  for (const state of ["dnnl", "cpu", "folded", "none"]) add(`nodes: ${stateName(state)}`, a.nodes.filter((node) => node.state === state).length, b.nodes.filter((node) => node.state === state).length, count);
  add("partitions", a.report.programs.length, b.report.programs.length, count);
  add("steps", a.steps.length, b.steps.length, count);
  add("copies and reorders", a.steps.filter((step) => step.moves).length, b.steps.filter((step) => step.moves).length, count);
  add("weights", sum(a.report.contexts, (one) => sum(one.blobs, (blob) => blob.bytes)), sum(b.report.contexts, (one) => sum(one.blobs, (blob) => blob.bytes)), bytes);
  const changed = differences(a, b);
  const columns = [
    { key: "name", label: "node", width: "34%", value: (row) => row.name, cell: (row) => el("span", { class: "name" }, clean(row.name)), full: (row) => row.name },
    { key: "what", label: "A → B", width: "38%", value: (row) => row.what, full: (row) => row.what },
    { key: "at", label: "time in A", number: true, width: "9%", value: (row) => row.a && row.a.time, cell: (row) => (row.a && known(row.a.time) ? micros(row.a.time) : "") },
    { key: "bt", label: "time in B", number: true, width: "9%", value: (row) => row.b && row.b.time, cell: (row) => (row.b && known(row.b.time) ? micros(row.b.time) : "") },
    { key: "delta", label: "B − A", number: true, width: "10%", value: (row) => row.delta, cell: (row) => (known(row.delta) ? `${row.delta > 0 ? "+" : "−"}${micros(Math.abs(row.delta))}` : "") },
  ];
  return section("differences", "Differences", null,
    el("div", { class: "two" }, [["A", a], ["B", b]].map(([letter, model]) => el("div", {}, el("h3", {}, `${letter}: ${clean(model.report.file.name)}`), el("p", { class: "note" }, madeFor(model.report)), el("p", {}, clean(model.report.sentence, 400))))),
    rows.length > 0 ? plainTable(["", "A", "B", "B / A"], rows, "figures of both") : null,
    changed.length > 0 ? el("h3", {}, "Nodes that run otherwise") : null,
    changed.length > 0 ? makeTable({ prefix: "change", label: "differences", columns, rows: changed, sort: {}, height: Math.min(14, changed.length) * rowHeight, text: (row) => `${row.name} ${row.what}` }) : el("p", {}, "Nodes of the same names run in the same way."));
};
