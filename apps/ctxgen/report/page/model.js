// What is shown, from the data of one report: steps with rates and nodes with times, linked to each other.

const precisions = ["f32", "bf16", "f16", "8 bit", "4 bit", "other"];
const precisionOf = (types) => {
  const operands = types.split("->")[0];
  if (/\b[su]4\b|\bu?int4\b/.test(operands)) return "4 bit";
  if (/\b[su]8\b|\bu?int8\b/.test(operands)) return "8 bit";
  if (/\bbf16\b|bfloat16/.test(operands)) return "bf16";
  if (/\bf16\b|float16/.test(operands)) return "f16";
  return /\bf32\b|float32|\bfloat\b/.test(operands) ? "f32" : "other";
};

const peakOf = (peaks, precision) => {
  if (!peaks) return 0;
  if (precision === "8 bit") return peaks.int8_gops_per_second || peaks.gflops_per_second;
  if (precision === "bf16") return peaks.bf16_gflops_per_second || peaks.gflops_per_second;
  return peaks.gflops_per_second;
};

// Steps of the first plan of each program; where none was made ahead, what was measured stands for them.
const stepsOf = (report) => {
  const steps = [];
  const add = (step, program, op, number) => {
    const one = { ...step, id: steps.length, program, op, number, nodes: [] };
    one.precision = precisionOf(step.types || (step.int8 ? "u8" : "f32"));
    steps.push(one);
  };
  const planned = new Set();
  report.programs.forEach((program, p) => {
    if (program.plans.length === 0) return;
    planned.add(p);
    program.plans[0].steps.forEach((step, s) => {
      const op = program.ops[step.op];
      add({ ...step, name: op.name, kind: op.kind, result: op.result, fused: op.fused || [] }, p, step.op, s);
    });
  });
  if (planned.size === report.programs.length || !report.measured) return steps;
  const ops = new Map();
  report.programs.forEach((program, p) => {
    if (!planned.has(p)) program.ops.forEach((op, o) => ops.set(`${op.kind}\n${op.name}`, [p, o, op]));
  });
  for (const one of report.measured.ops) {
    const found = ops.get(`${one.kind}\n${one.name}`);
    if (one.implementation === "cpu" || !found) continue;
    const [p, o, op] = found;
    add({ ...one, types: one.int8 ? "u8" : op.result ? op.result.split("[")[0] : "", layouts: "", scratch_bytes: 0, result: op.result, fused: op.fused || [] }, p, o, null);
  }
  return steps;
};

const derive = (data) => {
  const report = data.report;
  const peaks = report.measured && report.measured.peaks;
  const steps = stepsOf(report);
  const byOp = new Map();
  for (const step of steps) {
    addTo(byOp, `${step.program}.${step.op}`, step);
    if (step.us > 0) {
      step.gflops = step.flops / step.us / 1000;
      step.gbytes = step.bytes / step.us / 1000;
      step.computeShare = peakOf(peaks, step.precision) > 0 ? step.gflops / peakOf(peaks, step.precision) : undefined;
      step.memoryShare = peaks && peaks.gbytes_per_second > 0 ? step.gbytes / peaks.gbytes_per_second : undefined;
    }
  }
  const nodes = report.nodes.map((node, id) => ({ ...node, id, reads: node.reads || [], reasons: node.reasons || [], steps: [] }));
  for (const node of nodes) {
    node.steps = known(node.op) ? byOp.get(`${node.program}.${node.op}`) || [] : [];
    for (const step of node.steps) step.nodes.push(node);
  }
  const errors = partitionErrors(report);
  for (const node of nodes) {
    const share = (value) => sum(node.steps, (step) => (step[value] || 0) / step.nodes.length);
    const timed = node.steps.some((step) => known(step.us));
    node.time = known(node.us) ? node.us : timed ? share("us") : undefined;
    node.flops = share("flops");
    node.moved = share("bytes");
    node.state = node.folded ? "folded" : node.provider || "none";
    const main = node.steps.find((step) => !step.moves) || node.steps[0];
    node.implementation = main ? main.implementation : node.folded ? "ahead of time" : node.provider === "cpu" ? "cpu" : "";
    node.precision = main ? main.precision : node.folded ? "folded" : "other";
    node.error = known(node.program) ? errors.get(report.programs[node.program].name) : undefined;
  }
  const stepAt = new Map(steps.map((step) => [`${step.program}.${step.number}`, step]));
  const timed = nodes.some((node) => known(node.time));
  return { data, report, nodes, steps, stepAt, timed, errors, peaks, total: sum(nodes, (node) => node.time) };
};

// The worst of each partition's outputs over all runs: how much of the tolerance was used.
const partitionErrors = (report) => {
  const errors = new Map();
  for (const run of report.verification ? report.verification.runs : [])
    for (const one of run.partitions) {
      const worst = errors.get(one.partition);
      if (!worst || one.used > worst.used || !one.match) errors.set(one.partition, { ...one });
    }
  return errors;
};

const reports = [...document.querySelectorAll("script.report")].map((script) => derive(JSON.parse(script.textContent)));
