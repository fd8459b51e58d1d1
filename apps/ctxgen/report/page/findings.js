// What costs time or memory and what helps; and how exact each partition is.

const findingsSection = (model) => {
  const { lints } = model.report;
  const stepId = (ref) => { const found = model.stepAt.get(`${ref.program}.${ref.step}`); return found && found.id; };
  const items = lints.map((lint) => {
    const anchors = [...lint.nodes.map((id) => [`node-${id}`, model.nodes[id] && model.nodes[id].name]), ...lint.steps.slice(0, 200).map((ref) => [stepId(ref), ref]).filter(([id]) => known(id)).map(([id]) => [`step-${id}`, model.steps[id].name])].filter(([, name]) => known(name));
    const cost = [known(lint.us) ? micros(lint.us) : "", known(lint.us) && model.total > 0 ? percent(lint.us / model.total) : "", lint.bytes > 0 ? bytes(lint.bytes) : ""].filter(Boolean).join(" · ");
    return el("li", { class: `lint lint-${lint.kind}` },
      el("div", { class: "linthead" }, el("strong", {}, clean(lint.title)), el("span", { class: "cost" }, cost)),
      el("p", {}, clean(lint.text, 600)),
      el("p", { class: "help" }, el("b", {}, "What helps: "), clean(lint.help, 400)),
      anchors.length > 0 ? el("p", { class: "anchors" }, anchors.slice(0, 8).map(([anchor, name], i) => [i > 0 ? ", " : "", link(anchor, clean(name, 60))]).flat(), lint.nodes.length + lint.steps.length > 8 ? ` and ${count(lint.nodes.length + lint.steps.length - 8)} more` : "") : null);
  });
  return section("findings", "Findings", items.length > 0 ? "What costs time or memory, the dearest first, and the option that helps." : "Nothing to mend was found.", items.length > 0 ? el("ol", { class: "lints" }, items) : null);
};

const accuracySection = (model) => {
  const { verification } = model.report;
  if (!verification) return null;
  const rows = verification.runs.flatMap((run) => [...run.partitions.map((one) => [one.partition, one]), ...run.outputs.map((one) => ["the model", one])]).map(([where, one], id) => ({ id, where, ...one }));
  const columns = [
    { key: "where", label: "partition", width: "24%", value: (row) => row.where, cell: (row) => clean(row.where), full: (row) => row.where },
    { key: "name", label: "output", width: "24%", value: (row) => row.name, cell: (row) => clean(row.name), full: (row) => row.name },
    { key: "match", label: "", width: "9%", value: (row) => (row.match ? "match" : "MISMATCH"), full: (row) => row.text },
    { key: "max_abs", label: "max abs", number: true, width: "12%", value: (row) => row.max_abs, cell: (row) => row.max_abs.toExponential(2) },
    { key: "max_rel", label: "max rel", number: true, width: "12%", value: (row) => row.max_rel, cell: (row) => row.max_rel.toExponential(2) },
    { key: "used", label: "of tolerance", number: true, width: "12%", value: (row) => row.used, cell: (row) => percent(row.used) },
  ];
  return section("accuracy", "Accuracy", `Outputs of partitions and of the model next to the source on CPU kernels that sum in double precision: ${verification.match ? "all match" : "not all match"}.`,
    makeTable({ prefix: "output", label: "accuracy", columns, rows, sort: { key: "used", down: true }, height: Math.min(10, rows.length) * rowHeight, text: (row) => `${row.where} ${row.name} ${row.match ? "match" : "mismatch"}` }));
};
