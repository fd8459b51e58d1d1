// Where values are in the arena during a run: time to the right, addresses up.

const niceSteps = (most, wanted) => {
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-12)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const ticks = [];
  for (let at = 0; at <= most * 1.0001; at += step) ticks.push(at);
  return ticks;
};
const niceBytes = (most) => {
  let step = 2 ** Math.floor(Math.log2(Math.max(1, most / 5)));
  if (most / step > 8) step *= 2;
  const ticks = [];
  for (let at = 0; at <= most; at += step) ticks.push(at);
  return ticks;
};

const frame = { width: 1120, left: 74, right: 16, top: 10, bottom: 34 };

const memoryPicture = (program, plan, stepAt, number) => {
  const height = 320;
  const columns = Math.max(1, plan.steps.length);
  const arena = Math.max(1, plan.arena_bytes);
  const x = (step) => frame.left + ((frame.width - frame.left - frame.right) * step) / columns;
  const y = (offset) => height - frame.bottom - ((height - frame.top - frame.bottom) * offset) / arena;
  const largest = [...plan.regions].sort((a, b) => b.bytes * (b.last - b.first + 1) - a.bytes * (a.last - a.first + 1)).slice(0, 4000);
  const rectangles = largest.map((region) => {
    const maker = plan.steps[region.first];
    const step = stepAt.get(`${number}.${region.first}`);
    const top = y(region.offset + region.bytes);
    const one = svg("rect", { class: `region kind-${region.first % 5}`, x: x(region.first), y: top, width: Math.max(0.7, x(region.last + 1) - x(region.first)), height: Math.max(0.5, y(region.offset) - top), onclick: () => { if (step) goTo(`step-${step.id}`); } },
      svg("title", {}, `${bytes(region.bytes)} at ${bytes(region.offset)}\nsteps ${region.first} to ${region.last}\nmade by ${clean(program.ops[maker.op].name, 200)} (${clean(program.ops[maker.op].kind, 30)})`));
    return one;
  });
  const axes = [
    ...niceBytes(arena).map((offset) => svg("g", { class: "tick" }, svg("line", { x1: frame.left, x2: frame.width - frame.right, y1: y(offset), y2: y(offset) }), svg("text", { x: frame.left - 8, y: y(offset) + 4, "text-anchor": "end" }, bytes(offset)))),
    ...niceSteps(columns, 10).filter(Number.isInteger).map((step) => svg("text", { class: "axis", x: x(step), y: height - frame.bottom + 16, "text-anchor": "middle" }, count(step))),
    svg("text", { class: "axis", x: (frame.left + frame.width - frame.right) / 2, y: height - 3, "text-anchor": "middle" }, "step"),
  ];
  return svg("svg", { viewBox: `0 0 ${frame.width} ${height}`, class: "picture", role: "img", "aria-label": `memory plan of ${clean(program.name)}` }, axes, rectangles);
};

const memorySection = (model) => {
  const planned = model.report.programs.map((program, number) => ({ program, number })).filter(({ program }) => program.plans.some((plan) => plan.regions.length > 0));
  if (planned.length === 0) return null;
  const options = planned.flatMap(({ program, number }) => program.plans.map((plan, p) => ({ program, number, plan, label: `${clean(program.name, 60)}${program.plans.length > 1 ? `, ${plan.input_dims.map((dims) => dims.join("×")).join(" ")}` : ""} (${bytes(plan.arena_bytes)})`, p })));
  const largest = options.reduce((best, one, i) => (one.plan.arena_bytes > options[best].plan.arena_bytes ? i : best), 0);
  const holder = el("div", { class: "scrollpicture" });
  const facts = el("p", { class: "note" });
  const show = (index) => {
    const { program, plan, number, p } = options[index];
    const all = sum(plan.regions, (region) => region.bytes);
    holder.replaceChildren(memoryPicture(program, plan, p === 0 ? model.stepAt : new Map(), number));
    facts.textContent = `${many(plan.regions.length, "value")} of together ${bytes(all)} in an arena of ${bytes(plan.arena_bytes)}: each byte is used ${(all / Math.max(1, plan.arena_bytes)).toFixed(1)} times in a run. Scratch memory of steps: ${bytes(plan.scratch_bytes)}.${plan.regions.length > 4000 ? " Drawn are the largest 4000." : ""}`;
  };
  const select = el("select", { "aria-label": "program and plan", onchange: (event) => show(Number(event.target.value)) }, options.map((one, i) => el("option", { value: i, selected: i === largest }, one.label)));
  show(largest);
  return section("memory", "Memory plan", "Values that are needed at different times share addresses of one arena. Inputs, outputs and weights are elsewhere.", options.length > 1 ? el("div", { class: "tools" }, select) : null, holder, facts);
};
