// How near each step comes to what this machine can do, by how much it computes per byte.

const rooflineSection = (model) => {
  const { peaks } = model;
  const points = model.steps.filter((step) => step.us > 0 && step.flops > 0 && step.bytes > 0);
  if (!peaks || !peaks.gflops_per_second || !peaks.gbytes_per_second || points.length === 0) return null;
  const height = 400;
  const intensity = (step) => step.flops / step.bytes;
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const roofs = [["f32", peaks.gflops_per_second], ["bf16", peaks.bf16_gflops_per_second], ["8 bit", peaks.int8_gops_per_second]].filter(([name, peak]) => peak > 0 && (name === "f32" || points.some((step) => step.precision === name)));
  const xs = [Math.min(0.1, least(points.map(intensity))), Math.max(200, greatest(points.map(intensity)))].map((v, i) => (i === 0 ? Math.floor(Math.log10(v)) : Math.ceil(Math.log10(v))));
  const ys = [Math.max(least(points.map((step) => step.gflops)), 0.01), Math.max(...roofs.map(([, peak]) => peak), greatest(points.map((step) => step.gflops)))].map((v, i) => (i === 0 ? Math.floor(Math.log10(v)) : Math.log10(v) + 0.15));
  const x = (v) => frame.left + ((frame.width - frame.left - frame.right) * (Math.log10(v) - xs[0])) / (xs[1] - xs[0]);
  const y = (v) => height - frame.bottom - ((height - frame.top - frame.bottom) * (Math.log10(v) - ys[0])) / (ys[1] - ys[0]);
  const powers = (from, to) => Array.from({ length: Math.floor(to) - Math.ceil(from) + 1 }, (_, i) => 10 ** (Math.ceil(from) + i));
  const plain = (v) => (v >= 1 ? count(v) : String(Number(v.toPrecision(1))));
  const grid = [
    ...powers(xs[0], xs[1]).map((v) => svg("g", { class: "tick" }, svg("line", { x1: x(v), x2: x(v), y1: frame.top, y2: height - frame.bottom }), svg("text", { x: x(v), y: height - frame.bottom + 16, "text-anchor": "middle" }, plain(v)))),
    ...powers(ys[0], ys[1]).map((v) => svg("g", { class: "tick" }, svg("line", { x1: frame.left, x2: frame.width - frame.right, y1: y(v), y2: y(v) }), svg("text", { x: frame.left - 8, y: y(v) + 4, "text-anchor": "end" }, plain(v)))),
    svg("text", { class: "axis", x: (frame.left + frame.width) / 2, y: height - 3, "text-anchor": "middle" }, "operations per byte"),
    svg("text", { class: "axis", x: 14, y: height / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${height / 2})` }, "GFLOP/s"),
  ];
  const lines = roofs.flatMap(([name, peak]) => {
    const ridge = peak / peaks.gbytes_per_second;
    const start = 10 ** Math.max(xs[0], ys[0] - Math.log10(peaks.gbytes_per_second));
    return [
      svg("path", { class: "roof", d: `M${x(start)},${y(start * peaks.gbytes_per_second)} L${x(ridge)},${y(peak)} L${x(10 ** xs[1])},${y(peak)}` }),
      svg("text", { class: "axis", x: frame.width - frame.right - 4, y: y(peak) - 6, "text-anchor": "end" }, `${name}: ${rate(peak)} G${name === "8 bit" ? "OP" : "FLOP"}/s`),
    ];
  });
  const memory = svg("text", { class: "axis", x: x(10 ** Math.max(xs[0], ys[0] - Math.log10(peaks.gbytes_per_second))) + 22, y: height - frame.bottom - 12 }, `memory: ${rate(peaks.gbytes_per_second)} GB/s`);
  const slowest = greatest(points.map((step) => step.us));
  const dots = [...points].sort((a, b) => b.us - a.us).slice(0, 3000).map((step) => svg("circle", { class: `point precision-${step.precision.replace(" ", "")}`, cx: x(intensity(step)), cy: y(step.gflops), r: 2.5 + 9 * Math.sqrt(step.us / slowest), onclick: () => goTo(`step-${step.id}`) },
    svg("title", {}, `${clean(step.name, 200)}\n${clean(step.kind, 40)}, ${clean(step.implementation, 80)}\n${micros(step.us)}, ${rate(step.gflops)} GFLOP/s, ${rate(step.gbytes)} GB/s`)));
  const used = precisions.filter((name) => points.some((step) => step.precision === name));
  return section("roofline", "Roofline", "Each circle is a step; its area is its time. The lines are peaks that were measured on this machine right before and after, from registers and from memory; what is in caches can be read faster.",
    el("div", { class: "scrollpicture" }, svg("svg", { viewBox: `0 0 ${frame.width} ${height}`, class: "picture", role: "img", "aria-label": "roofline" }, grid, lines, memory, dots)),
    el("div", { class: "legend" }, used.map((name) => el("span", {}, el("i", { class: `dot precision-${name.replace(" ", "")}` }), name))));
};
