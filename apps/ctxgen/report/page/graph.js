// The graph, folded by the scopes in names: one scope at a time, a step into those below.

const mostItems = 36; // in one picture; larger scopes are cut into parts in the order of the graph

const separatorOf = (nodes) => {
  const names = nodes.map((node) => node.name);
  const share = (test) => names.filter(test).length / Math.max(1, names.length);
  if (share((name) => name.slice(1).includes("/")) > 0.4) return "/";
  if (share((name) => (name.match(/\./g) || []).length > 1) > 0.4) return ".";
  const underscored = names.filter((name) => name.split("_").length > 2);
  if (underscored.length > 0.6 * names.length && new Set(underscored.map((name) => name.split("_")[0])).size <= 8) return "_";
  return null;
};

const scopeTree = (nodes) => {
  const root = { name: "model", scopes: new Map(), nodes: [] };
  const separator = separatorOf(nodes);
  for (const node of nodes) {
    const parts = separator ? node.name.slice(0, 2000).split(separator).filter(Boolean).slice(0, 24) : [];
    let scope = root;
    for (const part of parts.slice(0, -1)) {
      if (!scope.scopes.has(part)) scope.scopes.set(part, { name: part, scopes: new Map(), nodes: [] });
      scope = scope.scopes.get(part);
    }
    scope.nodes.push(node);
  }
  const lastPart = (node) => (separator ? node.name.slice(0, 2000).split(separator).filter(Boolean).pop() : null) || node.name;
  const isInterleaved = (item, items) => {
    const last = item.all[item.all.length - 1];
    return items.some((other) => other !== item && other.first > item.first && other.first < last);
  };
  const finish = (scope) => {
    let items = [...scope.scopes.values()].map(finish);
    items = [...items, ...scope.nodes.map((node) => ({ node, label: lastPart(node), first: node.id, size: 1, all: [node.id] }))];
    // Scopes of one node, and small ones that are used here and there (an activation that a module has once), are no scopes to look into.
    items = items.flatMap((item) => (item.items && (item.size === 1 || (item.size <= 8 && items.length < mostItems && isInterleaved(item, items))) ? item.items.map((inner) => ({ ...inner, label: inner.items ? undefined : `${item.name}${separator}${inner.label}`, name: inner.items ? `${item.name}${separator}${inner.name}` : undefined })) : [item]));
    items.sort((a, b) => a.first - b.first);
    if (items.length === 1 && items[0].items) return { ...items[0], name: `${scope.name}${separator}${items[0].name}` };
    while (items.length > mostItems) {
      const part = Math.ceil(items.length / Math.min(24, Math.ceil(items.length / 12)));
      const parts = [];
      for (let i = 0; i < items.length; i += part) parts.push(groupOf(null, items.slice(i, i + part)));
      items = parts;
    }
    return groupOf(scope.name, items);
  };
  const groupOf = (name, items) => {
    const all = items.flatMap((item) => item.all).sort((a, b) => a - b);
    const ends = [items[0], items[items.length - 1]].map((item) => item.label || item.name);
    return { name: name === null ? `${clean(ends[0], 24)} … ${clean(ends[1], 24)}` : name, items, first: all[0], size: all.length, all };
  };
  return finish(root);
};

// ---- colours -----------------------------------------------------------------------------------------------------------

// Parts of an item's bar: class and weight. By time and error the whole bar has one of five steps of heat.
const heat = (share) => `heat-${Math.min(4, Math.max(0, Math.ceil(share * 4 - 1e-9)))}`;
const colourings = {
  provider: { label: "provider", parts: (nodes) => tally(nodes, (node) => `state-${["dnnl", "cpu", "folded", "none"].includes(node.state) ? node.state : "other"}`), legend: ["dnnl", "cpu", "folded", "none"].map((state) => [`state-${state}`, stateNames[state]]) },
  time: { label: "time", available: (model) => model.timed, parts: (nodes, model, most) => [[heat(most > 0 ? sum(nodes, (node) => node.time) / most : 0), 1]], legend: [["heat-0", "least"], ["heat-2", "half"], ["heat-4", "most in this picture"]] },
  precision: { label: "precision", parts: (nodes) => tally(nodes, (node) => `precision-${node.precision.replace(" ", "")}`), legend: precisions.map((name) => [`precision-${name.replace(" ", "")}`, name]) },
  error: { label: "error", available: (model) => model.errors.size > 0, parts: (nodes) => { const used = greatest(nodes.map((node) => (node.error ? (node.error.match ? Math.min(node.error.used, 0.99) : 1) : 0))); return [[nodes.every((node) => !node.error) ? "state-folded" : heat(used), 1]]; }, legend: [["state-folded", "not compared"], ["heat-0", "exact"], ["heat-2", "half of the tolerance"], ["heat-4", "all of it"]] },
};
const tally = (nodes, key) => [...nodes.reduce((all, node) => all.set(key(node), (all.get(key(node)) || 0) + 1), new Map())].sort();

// ---- layout ------------------------------------------------------------------------------------------------------------

const box = { width: 176, height: 44, across: 18, down: 34 };

// Rows from the inputs down; in a row, items stand below those that they read.
const arrange = (items, edges) => {
  const reads = items.map(() => []);
  edges.forEach(([from, to]) => { if (from < to) reads[to].push(from); });
  const level = [];
  items.forEach((_, i) => { level[i] = reads[i].length > 0 ? Math.max(...reads[i].map((from) => level[from])) + 1 : 0; });
  // What reads nothing comes right above its first reader.
  const readers = items.map(() => []);
  edges.forEach(([from, to]) => { if (from < to) readers[from].push(to); });
  items.forEach((_, i) => { if (reads[i].length === 0 && readers[i].length > 0) level[i] = Math.max(0, Math.min(...readers[i].map((to) => level[to])) - 1); });
  const rows = [];
  level.forEach((at, i) => { (rows[at] = rows[at] || []).push(i); });
  const place = [];
  for (const row of rows) {
    const wish = (i) => (reads[i].length > 0 ? sum(reads[i], (from) => place[from] || 0) / reads[i].length : 0);
    row.sort((a, b) => wish(a) - wish(b) || a - b);
    row.forEach((i, k) => { place[i] = k - (row.length - 1) / 2; });
  }
  const widest = Math.max(...rows.map((row) => row.length));
  const width = Math.max(640, widest * (box.width + box.across) + box.across);
  return {
    width, height: rows.length * (box.height + box.down) + box.down,
    at: items.map((_, i) => ({ x: width / 2 + place[i] * (box.width + box.across), y: box.down / 2 + level[i] * (box.height + box.down) })),
  };
};

const graphSection = (model) => {
  if (model.nodes.length === 0) return null;
  const root = scopeTree(model.nodes);
  const state = { path: [root], colour: model.timed ? "time" : "provider" };
  const holder = el("div", { class: "graph", role: "group", "aria-label": "graph" });
  const crumbs = el("nav", { class: "crumbs", "aria-label": "scopes" });
  const details = el("div", { class: "details", role: "status" });
  const legend = el("div", { class: "legend" });
  const choice = el("div", { class: "choice", role: "radiogroup", "aria-label": "colour by" }, el("span", {}, "Colour by"),
    Object.entries(colourings).filter(([, one]) => !one.available || one.available(model)).map(([key, one]) =>
      el("label", {}, el("input", { type: "radio", name: "colour", value: key, checked: key === state.colour, onchange: () => { state.colour = key; draw(); } }), one.label)));

  const enter = (item) => {
    if (item.node) return choose(item.node);
    state.path.push(item);
    draw();
    const first = holder.querySelector("[tabindex]");
    if (first) first.focus({ preventScroll: true });
  };
  const choose = (node) => {
    const partners = node.steps.flatMap((step) => step.nodes).filter((other, i, all) => other !== node && all.indexOf(other) === i);
    details.replaceChildren(...[
      el("strong", {}, link(`node-${node.id}`, clean(node.name))), ` ${clean(node.op_type, 40)}, ${stateName(node.state)}`,
      node.steps.length > 0 ? el("span", {}, " · computed by ", node.steps.slice(0, 4).map((step, i) => [i > 0 ? ", " : "", link(`step-${step.id}`, clean(step.implementation, 40))]).flat()) : "",
      partners.length > 0 ? el("span", {}, " · fused with ", partners.slice(0, 6).map((other, i) => [i > 0 ? ", " : "", link(`node-${other.id}`, clean(other.name, 60))]).flat(), partners.length > 6 ? ` and ${partners.length - 6} more` : "") : "",
      known(node.time) ? ` · ${micros(node.time)}` : "", node.reasons.length > 0 ? ` · ${clean(node.reasons.join("; "), 300)}` : "",
    ].filter((part) => part !== ""));
  };

  const boxOf = (item, at, most) => {
    const nodes = item.all.map((id) => model.nodes[id]);
    const parts = colourings[state.colour].parts(nodes, model, most);
    const total = sum(parts, ([, weight]) => weight);
    const time = sum(nodes, (node) => node.time);
    const left = at.x - box.width / 2;
    const name = clean(item.label || item.name);
    const second = [item.node ? clean(item.node.op_type, 20) : many(item.size, "node"), time > 0 ? micros(time) : ""].filter(Boolean).join(" · ");
    let offset = at.y;
    const stripe = parts.map(([colour, weight]) => {
      const height = (box.height * weight) / total;
      const one = svg("rect", { x: left, y: offset, width: 7, height, class: colour });
      offset += height;
      return one;
    });
    const open = () => enter(item);
    return svg("g", { class: item.node ? "item leaf" : "item", tabindex: "0", role: "button", "aria-label": `${name}, ${second}`, onclick: open, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } } },
      svg("title", {}, item.node ? clean(item.node.name, 400) : `${name}: ${second}`),
      svg("rect", { x: left, y: at.y, width: box.width, height: box.height, rx: 3, class: "face" }), stripe,
      svg("text", { x: left + 16, y: at.y + 18, class: "label" }, name.length > 20 ? `${name.slice(0, 7)}…${name.slice(-12)}` : name),
      svg("text", { x: left + 16, y: at.y + 34, class: "second" }, second.length > 26 ? `${second.slice(0, 25)}…` : second));
  };

  const draw = () => {
    const scope = state.path[state.path.length - 1];
    crumbs.replaceChildren(...state.path.map((one, i) => (i + 1 === state.path.length ? el("span", { "aria-current": "true" }, clean(one.name, 60)) : el("span", {}, el("button", { type: "button", onclick: () => { state.path.length = i + 1; draw(); } }, clean(one.name, 60)), " › "))));
    const itemOf = new Map();
    scope.items.forEach((item, i) => item.all.forEach((id) => itemOf.set(id, i)));
    const seen = new Map();
    for (const id of scope.all)
      for (const from of model.nodes[id].reads) {
        const [a, b] = [itemOf.get(from), itemOf.get(id)];
        if (a !== undefined && a !== b) seen.set(`${a} ${b}`, [a, b, (seen.get(`${a} ${b}`) || [0, 0, 0])[2] + 1]);
      }
    const edges = [...seen.values()];
    const { width, height, at } = arrange(scope.items, edges);
    const most = Math.max(0, ...scope.items.map((item) => sum(item.all, (id) => model.nodes[id].time)));
    const lines = edges.map(([a, b, weight]) => {
      const [from, to] = [at[a], at[b]];
      const width = Math.min(3, 1 + Math.log2(weight) / 3);
      if (to.y <= from.y) { // back up: around the right side
        const [right, out] = [Math.max(from.x, to.x) + box.width / 2, 26];
        return svg("path", { class: "edge back", d: `M${from.x + box.width / 2},${from.y + box.height / 2} C${right + out},${from.y + box.height / 2} ${right + out},${to.y + box.height / 2} ${to.x + box.width / 2},${to.y + box.height / 2}`, "stroke-width": width });
      }
      const [y1, y2] = [from.y + box.height, to.y];
      const bend = Math.max(16, Math.abs(y2 - y1) / 2);
      return svg("path", { class: "edge", d: `M${from.x},${y1} C${from.x},${y1 + bend} ${to.x},${y2 - bend} ${to.x},${y2}`, "stroke-width": width });
    });
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, lines, scope.items.map((item, i) => boxOf(item, at[i], most)));
    holder.replaceChildren(picture);
    holder.scrollLeft = Math.max(0, (width - holder.clientWidth) / 2);
    legend.replaceChildren(...colourings[state.colour].legend.map(([colour, text]) => el("span", {}, el("i", { class: `dot ${colour}` }), text)));
    details.replaceChildren("Open a box to look into it; a node shows what computes it.");
  };
  draw();
  return section("graph", "Graph", `${many(model.nodes.length, "node")}, folded by the scopes in their names.`, el("div", { class: "tools" }, crumbs, choice), holder, legend, details);
};
