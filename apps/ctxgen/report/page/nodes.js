// The tables of nodes and of the primitives and loops that compute them.

const small = (text) => el("span", { class: "minor" }, text);
const shareCell = (value, share) => (known(value) && value > 0 ? el("span", {}, rate(value), share !== undefined ? small(` ${percent(share)}`) : "") : "");

// "f32" where all are the same, else source, weight and result.
const shortTypes = (types) => {
  const all = types.split(/ (?:\*|->) /);
  return new Set(all).size === 1 ? all[0] : types.replaceAll("->", "→").replaceAll("*", "·");
};

const nodesSection = (model) => {
  const { report } = model;
  const columns = [
    { key: "name", label: report.from_source ? "node" : "operation", width: "30%", value: (row) => row.name, cell: (row) => el("span", { class: "name" }, clean(row.name)), full: (row) => (row.graph ? `${row.graph}: ` : "") + row.name },
    { key: "op", label: report.from_source ? "operator" : "kind", width: "13%", value: (row) => row.op_type, cell: (row) => clean(row.op_type, 40), full: (row) => row.op_type },
    { key: "state", label: "runs on", width: "12%", value: (row) => row.state, cell: (row) => el("span", {}, el("i", { class: `dot state-${row.state}` }), stateName(row.state)) },
    { key: "why", label: "computed by", width: model.timed ? "27%" : "36%", value: (row) => row.implementation + row.reasons.join(), full: (row) => row.reasons.join("; ") || row.implementation,
      cell: (row) => (row.steps.length > 0 ? el("span", {}, link(`step-${row.steps[0].id}`, clean(row.implementation, 40)), row.steps[0].nodes.length > 1 ? small(` with ${many(row.steps[0].nodes.length - 1, "other node")}`) : row.steps.length > 1 ? small(` in ${row.steps.length} steps`) : "") : clean(row.reasons.join("; ") || row.implementation)) },
    { key: "precision", label: "precision", width: "9%", value: (row) => (["other", "folded"].includes(row.precision) ? "" : row.precision) },
  ];
  if (model.timed) columns.push({ key: "time", label: "time", title: "an op's time is split equally among its nodes", number: true, width: "9%", value: (row) => row.time, cell: (row) => (known(row.time) ? micros(row.time) : "") });
  return section("nodes", report.from_source ? "Nodes" : "Operations",
    report.from_source ? "Every node of the source: where it runs, and the primitive or loop that computes it or the reason why it stays." : "The source is not known: the operations of each program stand for its nodes.",
    makeTable({ prefix: "node", label: "nodes", columns, rows: model.nodes, sort: {}, text: (row) => [row.name, row.op_type, row.state, row.implementation, row.precision, ...row.reasons].join(" ") }));
};

const programsTable = (model) => {
  const { report, data } = model;
  const partitions = new Map(data.models[0].partitions.map((partition) => [partition.name, partition]));
  const rows = report.programs.map((program, id) => {
    const own = model.steps.filter((step) => step.program === id);
    const partition = partitions.get(program.name) || { notes: [] };
    return { id, program, partition, nodes: 0, us: sum(own, (step) => step.us), flops: sum(own, (step) => step.flops), steps: own.length, notes: [...(partition.notes || []), ...(program.error ? [program.error] : [])].join("; ") };
  });
  for (const node of model.nodes) if (known(node.program)) rows[node.program].nodes += 1;
  const columns = [
    { key: "name", label: "program", width: "24%", value: (row) => row.program.name, cell: (row) => clean(row.program.name), full: (row) => `${row.program.name}\n${row.program.hash}` },
    { key: "provider", label: "provider", width: "9%", value: (row) => row.program.provider },
    { key: "nodes", label: "nodes", number: true, width: "7%", value: (row) => row.nodes },
    { key: "steps", label: "steps", number: true, width: "7%", value: (row) => row.steps },
    { key: "plans", label: "plans", title: "made ahead, one for each size", number: true, width: "7%", value: (row) => row.program.plans.length },
    { key: "weights", label: "weights", number: true, width: "9%", value: (row) => row.partition.weight_bytes, cell: (row) => (known(row.partition.weight_bytes) ? bytes(row.partition.weight_bytes) : "") },
    { key: "flops", label: "compute", number: true, width: "10%", value: (row) => row.flops, cell: (row) => (row.flops > 0 ? flops(row.flops) : "") },
    ...(model.timed ? [{ key: "us", label: "time", number: true, width: "8%", value: (row) => row.us, cell: (row) => micros(row.us) }] : []),
    { key: "notes", label: "notes", width: model.timed ? "19%" : "27%", value: (row) => row.notes, cell: (row) => clean(row.notes, 200), full: (row) => row.notes },
  ];
  return makeTable({ prefix: "program", label: "programs", columns, rows, sort: {}, height: Math.min(6, rows.length) * rowHeight, filters: rows.length > 6, text: (row) => `${row.program.name} ${row.notes}` });
};

const stepsSection = (model) => {
  const columns = [
    { key: "name", label: "step", width: "18%", value: (row) => row.name, cell: (row) => el("span", { class: "name" }, row.nodes.length > 0 ? link(`node-${row.nodes[row.nodes.length - 1].id}`, clean(row.name)) : clean(row.name)), full: (row) => `${row.name}\ncomputes: ${row.nodes.map((node) => node.name).slice(0, 12).join(", ")}` },
    { key: "kind", label: "kind", width: "12%", value: (row) => row.kind, cell: (row) => el("span", {}, clean(row.kind, 30), row.fused.length > 0 ? small(` + ${row.fused.join(", ")}`) : ""), full: (row) => [row.kind, ...row.fused].join(" + ") },
    { key: "implementation", label: "implementation", width: "17%", value: (row) => row.implementation, cell: (row) => clean(row.implementation, 60), full: (row) => row.implementation },
    { key: "types", label: "precision", width: "9%", value: (row) => row.types, cell: (row) => shortTypes(row.types), full: (row) => row.types },
    { key: "layouts", label: "layouts", width: "13%", value: (row) => row.layouts, cell: (row) => row.layouts.replaceAll("->", "→"), full: (row) => row.layouts },
    { key: "flops", label: "MFLOP", number: true, width: "6.5%", value: (row) => row.flops || undefined, cell: (row) => (row.flops > 0 ? (row.flops / 1e6).toFixed(2) : "") },
  ];
  if (model.timed)
    columns.push(
      { key: "us", label: "µs", number: true, width: "6.5%", value: (row) => row.us, cell: (row) => (known(row.us) ? row.us.toFixed(1) : "") },
      { key: "gflops", label: "GFLOP/s", title: "and its share of the measured peak", number: true, width: "8.5%", value: (row) => row.gflops || undefined, cell: (row) => shareCell(row.gflops, row.computeShare) },
      { key: "gbytes", label: "GB/s", title: "and its share of the measured peak, which data in caches can exceed", number: true, width: "8.5%", value: (row) => row.gbytes || undefined, cell: (row) => shareCell(row.gbytes, row.memoryShare) });
  else columns.push({ key: "bytes", label: "bytes", number: true, width: "9%", value: (row) => row.bytes || undefined, cell: (row) => (row.bytes > 0 ? bytes(row.bytes) : "") });
  if (model.steps.length === 0) return null;
  const moved = model.steps.filter((step) => step.moves);
  const lead = `${many(model.steps.length, "step")} in ${many(model.report.programs.length, "program")}: oneDNN's primitives and ctxgen's own loops${moved.length > 0 ? `; ${moved.length === 1 ? "1 of them only copies or reorders" : `${count(moved.length)} of them only copy or reorder`}` : ""}. A program is a partition of the graph.`;
  return section("steps", "Programs and primitives", lead, programsTable(model), makeTable({ prefix: "step", label: "primitives", columns, rows: model.steps, sort: model.timed ? { key: "us", down: true } : {}, text: (row) => [row.name, row.kind, row.implementation, row.types, row.layouts, ...row.fused].join(" ") }));
};
