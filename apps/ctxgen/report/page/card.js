// The first thing seen: the sentence, the figures, and who has which share of what.

const figure = (value, label, note) => el("div", { class: "figure" }, el("dd", {}, value), el("dt", {}, label), note ? el("small", {}, note) : null);

const figuresOf = (model) => {
  const { report, data } = model;
  const measured = report.measured;
  const arena = greatest(report.programs.flatMap((program) => program.plans.map((plan) => plan.arena_bytes + plan.scratch_bytes)));
  const figures = [figure(count(model.nodes.length), report.from_source ? "nodes" : "operations", `in ${many(data.models[0].partitions.length, "partition")}`)];
  if (measured) {
    figures.push(figure(micros(1000 * measured.latency_ms.p50), "one run", `99 of 100 within ${micros(1000 * measured.latency_ms.p99)}`));
    figures.push(figure(micros(1000 * measured.load_ms), "load", `${many(measured.primitives, "primitive")} created`));
    figures.push(figure(micros(1000 * measured.first_run_ms), "first run"));
    figures.push(figure(bytes(measured.private_bytes), "private memory", `${bytes(measured.resident_bytes)} resident`));
  }
  const total = sum(model.steps, (step) => step.flops);
  if (total > 0) figures.push(figure(flops(total), "compute", "as planned, in partitions"));
  if (arena > 0) figures.push(figure(bytes(arena), "arena of one run", "values and scratch memory"));
  const stored = data.files.length > 0 ? sum(data.files, (file) => file.bytes) : report.file.bytes + sum(report.contexts, (context) => (context.embedded ? 0 : context.bytes));
  figures.push(figure(bytes(stored), "files", `${bytes(sum(report.contexts, (context) => sum(context.blobs, (blob) => blob.bytes)))} of weights`));
  return figures;
};

const stateNames = { dnnl: "dnnl", cpu: "cpu", folded: "ahead of time", none: "not run" };
const stateName = (state) => stateNames[state] || clean(state);

const sharesOf = (model) => {
  const groups = new Map();
  for (const node of model.nodes) {
    const group = groups.get(node.state) || { state: node.state, nodes: 0, time: 0, flops: 0, bytes: 0 };
    group.nodes += 1;
    group.time += node.time || 0;
    group.flops += node.flops;
    group.bytes += node.moved;
    groups.set(node.state, group);
  }
  return [...groups.values()].sort((a, b) => b.nodes - a.nodes);
};

const bar = (shares, value, label) => {
  const total = sum(shares, value);
  if (total <= 0) return null;
  return el("div", { class: "bar", role: "img", "aria-label": `${label}: ${shares.map((one) => `${stateName(one.state)} ${percent(value(one) / total)}`).join(", ")}` },
    shares.filter((one) => value(one) > 0).map((one) => el("span", { class: `state-${["dnnl", "cpu", "folded", "none"].includes(one.state) ? one.state : "other"}`, style: `flex-grow:${value(one)}`, title: `${stateName(one.state)}: ${percent(value(one) / total)}` })));
};

// "format=1;onednn=3.12.1;isa=avx2" as words, of all context binaries.
const madeFor = (report) => {
  const texts = report.contexts.map(({ fingerprint }) => {
    const fields = new Map(fingerprint.split(";").map((field) => field.split("=")));
    return fields.has("onednn") && fields.has("isa") ? `oneDNN ${fields.get("onednn")} · ${fields.get("isa").replaceAll(",", ", ")} · format ${fields.get("format")}` : fingerprint;
  });
  return clean([...new Set(texts)].join("; "));
};

// Of models with many inputs (a decoder has two for each layer) the first ones.
const inputsText = (inputs) => {
  const shown = inputs.length > 5 ? inputs.slice(0, 4) : inputs;
  const names = shown.map((input) => `${clean(input.name, 40)} ${input.dims ? input.dims.join("×") : ""}`.trim());
  return names.join(", ") + (shown.length < inputs.length ? ` and ${count(inputs.length - shown.length)} more` : "");
};

const card = (model) => {
  const { report } = model;
  const shares = sharesOf(model);
  const rows = shares.map((one) => [
    el("span", {}, el("i", { class: `dot state-${one.state}` }), stateName(one.state)),
    count(one.nodes), one.flops > 0 ? flops(one.flops) : "–", one.bytes > 0 ? bytes(one.bytes) : "–",
    one.time > 0 ? micros(one.time) : "–", one.time > 0 ? percent(one.time / model.total) : "–",
  ].slice(0, model.timed ? 6 : 4));
  const what = report.measured
    ? `Measured by a process of its own: ${many(report.measured.iterations, "run")} with random inputs (${inputsText(report.measured.inputs)}). Times of single steps are from other runs, in which each step is timed.`
    : "Not measured.";
  const about = `${clean(report.file.name)} · ctxgen ${report.ctxgen}${report.contexts.length > 0 ? ` · ${madeFor(report)}` : ""}`;
  return el("section", { id: "summary", "aria-label": "Summary" },
    el("p", { class: "sentence" }, clean(report.sentence, 500)),
    el("dl", { class: "figures" }, figuresOf(model)),
    el("div", { class: "shares" }, el("div", { class: "bars" }, [["nodes", (one) => one.nodes], ...(model.timed ? [["time", (one) => one.time]] : [])].flatMap(([label, value]) => [el("span", {}, label), bar(shares, value, label)])),
      plainTable([report.from_source ? "who runs it" : "provider", "nodes", "compute", "memory traffic", ...(model.timed ? ["time", "share"] : [])], rows, "by provider")),
    el("p", { class: "note" }, what), el("p", { class: "note" }, about));
};
