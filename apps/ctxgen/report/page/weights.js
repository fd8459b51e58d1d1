// The weights: which blob of which file holds them, in which layout, and who shares it.

const weightsSection = (model) => {
  const { report, data } = model;
  const rows = report.programs.flatMap((program, p) => program.weights.map((weight) => ({ ...weight, program: p, programName: program.name, context: program.context })));
  if (rows.length === 0) return null;
  const users = new Map();
  const key = (row) => `${row.context}.${row.blob}`;
  for (const row of rows) addTo(users, key(row), row);
  rows.forEach((row, id) => {
    row.id = id;
    row.users = users.get(key(row));
    row.bytes = (report.contexts[row.context].blobs[row.blob] || { bytes: 0 }).bytes;
  });
  const saved = sum([...users.values()], (all) => (all.length - 1) * all[0].bytes);
  const layouts = new Map();
  for (const [, all] of users) layouts.set(all[0].layout, (layouts.get(all[0].layout) || 0) + all[0].bytes);
  const maps = report.contexts.map((context, c) => {
    const total = sum(context.blobs, (blob) => blob.stored_bytes);
    if (total <= 0) return null;
    const width = frame.width - 2;
    let at = 1;
    const blocks = [];
    let rest = 0;
    context.blobs.forEach((blob, b) => {
      const wide = (blob.stored_bytes / total) * width;
      const all = users.get(`${c}.${b}`) || [];
      if (wide < 0.6) { rest += wide; return; } // too small to be seen: they are in the table
      blocks.push(svg("rect", { class: all.length > 1 ? "blob shared" : all.length === 1 ? (all[0].layout === "plain" ? "blob plainblob" : "blob packed") : "blob unused", x: at, y: 1, width: wide, height: 42, onclick: () => { if (all.length > 0) goTo(`weight-${all[0].id}`); } },
        svg("title", {}, `blob ${b}: ${bytes(blob.bytes)}\n${all.slice(0, 5).map((row) => `${clean(row.name, 80)} (${row.layout})`).join("\n")}${all.length > 5 ? `\nand ${all.length - 5} more` : ""}`)));
      at += wide;
    });
    if (rest > 0) blocks.push(svg("rect", { class: "blob small", x: at, y: 1, width: rest, height: 42 }, svg("title", {}, "small ones")));
    return el("figure", {}, el("figcaption", {}, `${clean(context.name)}: ${many(context.blobs.length, "blob")}, ${bytes(sum(context.blobs, (blob) => blob.bytes))}${total < sum(context.blobs, (blob) => blob.bytes) ? `, ${bytes(total)} in the file` : ""}`),
      svg("svg", { viewBox: `0 0 ${frame.width} 44`, class: "picture strip", preserveAspectRatio: "none", role: "img", "aria-label": `blobs of ${clean(context.name)}` }, blocks));
  });
  const columns = [
    { key: "name", label: "weight", width: "30%", value: (row) => row.name, cell: (row) => el("span", { class: "name" }, clean(row.name)), full: (row) => row.name },
    { key: "dims", label: "type and dims", width: "20%", value: (row) => row.type + row.dims, cell: (row) => `${row.type} ${row.dims}`, full: (row) => `${row.type} ${row.dims}` },
    { key: "layout", label: "layout", width: "14%", value: (row) => row.layout },
    { key: "program", label: "program", width: "16%", value: (row) => row.programName, cell: (row) => clean(row.programName, 40), full: (row) => row.programName },
    { key: "blob", label: "blob", width: "7%", number: true, value: (row) => row.blob, cell: (row) => String(row.blob) },
    { key: "users", label: "uses", width: "5%", number: true, value: (row) => row.users.length },
    { key: "bytes", label: "bytes", width: "8%", number: true, value: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
  ];
  const sharing = (data.sharing || []).slice(0, 12).map((one) => [one.users.map((user) => clean(user, 60)).join(", "), count(one.blobs), bytes(one.bytes), bytes(one.saved_bytes)]);
  const lead = `${many(rows.length, "weight")} in ${many(users.size, "blob")}${saved > 0 ? `; sharing saves ${bytes(saved)}` : ""}. Layouts: ${[...layouts].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([name, size]) => `${name} ${bytes(size)}`).join(", ")}.`;
  return section("weights", "Weights", lead, maps,
    el("div", { class: "legend" }, [["packed", "packed, used once"], ["plainblob", "plain"], ["shared", "shared"]].map(([colour, text]) => el("span", {}, el("i", { class: `dot ${colour}` }), text))),
    sharing.length > 0 ? plainTable(["shared by", "blobs", "bytes", "saves"], sharing, "sharing") : null,
    makeTable({ prefix: "weight", label: "weights", columns, rows, sort: { key: "bytes", down: true }, height: 10 * rowHeight, text: (row) => [row.name, row.type, row.dims, row.layout, row.programName].join(" ") }));
};
