// A table of any length: sorts by its headers, filters by words, draws only the rows in sight.

const rowHeight = 30;
const tables = new Set(); // on the page, for printing

const makeTable = ({ prefix, label, columns, rows, text, sort, height = 17 * rowHeight, filters = true }) => {
  let order = { ...sort };
  let shown = rows;
  let printing = false;
  let found = null; // what a link led to
  let drawnRows = null;
  let drawnFrom = -1;
  let drawnTo = -1;
  let elements = new Map(); // of the rows that are drawn
  const status = el("span", { class: "status", role: "status" });
  const body = el("tbody");
  const headers = columns.map((column) => {
    const button = el("button", { type: "button", title: column.title, onclick: () => {
      order = { key: column.key, down: order.key === column.key ? !order.down : Boolean(column.number) };
      scroller.scrollTop = 0;
      update();
    } }, column.label);
    return el("th", { scope: "col", class: column.number ? "number" : null }, button);
  });
  const table = el("table", { class: "rows", "aria-label": label },
    el("colgroup", {}, columns.map((column) => el("col", { style: `width:${column.width}` }))),
    el("thead", {}, el("tr", {}, headers)), body);
  const scroller = el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label, onscroll: () => draw() }, table);
  const filter = el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${label}`, oninput: () => { scroller.scrollTop = 0; update(); } });

  const space = (count) => el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: columns.length, style: `height:${count * rowHeight}px` }));
  const rowOf = (row) => {
    const cells = columns.map((column) => {
      const content = column.cell ? column.cell(row) : column.value(row);
      return el("td", { class: column.number ? "number" : null, title: column.full ? clean(column.full(row), 600) : null }, known(content) ? content : "");
    });
    return el("tr", { id: prefix ? `${prefix}-${row.id}` : null, tabindex: "-1", class: row.id === found ? "found" : null }, cells);
  };
  const draw = () => {
    const most = printing ? Math.min(shown.length, 400) : shown.length;
    const visible = printing ? most : Math.ceil(height / rowHeight) + 16;
    const first = printing ? 0 : Math.max(0, Math.min(Math.floor(scroller.scrollTop / rowHeight) - 8, Math.max(0, most - visible)));
    const last = Math.min(most, first + visible);
    if (drawnRows === shown && drawnFrom === first && drawnTo === last) return;
    [drawnRows, drawnFrom, drawnTo] = [shown, first, last];
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    elements = new Map(shown.slice(first, last).map((row) => [row, elements.get(row) || rowOf(row)])); // those that stay keep the focus
    const drawn = [...elements.values()];
    if (first > 0) drawn.unshift(space(first));
    if (last < most) drawn.push(space(most - last));
    body.replaceChildren(...drawn);
    if (focused && focused.isConnected) focused.focus({ preventScroll: true });
  };
  const update = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = words.length === 0 ? [...rows] : rows.filter((row) => { const own = text(row).toLowerCase(); return words.every((word) => own.includes(word)); });
    const column = columns.find((one) => one.key === order.key);
    if (column) {
      const keyed = shown.map((row, index) => [column.value(row), index, row]);
      const missing = (value) => value === undefined || value === null || value === "";
      keyed.sort(([a, i], [b, j]) => {
        if (missing(a) || missing(b)) return missing(a) - missing(b) || i - j; // what is not known comes last
        const way = typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
        return (order.down ? -way : way) || i - j;
      });
      shown = keyed.map(([, , row]) => row);
    }
    headers.forEach((header, i) => {
      if (columns[i].key === order.key) header.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    });
    status.textContent = shown.length === rows.length ? many(rows.length, "row") : `${count(shown.length)} of ${many(rows.length, "row")}`;
    scroller.style.maxHeight = `${height + rowHeight + 4}px`;
    draw();
  };
  const reveal = (id) => {
    let at = shown.findIndex((row) => row.id === id);
    if (at < 0) {
      filter.value = "";
      update();
      at = shown.findIndex((row) => row.id === id);
    }
    if (at < 0) return;
    scroller.scrollTop = Math.max(0, at * rowHeight - height / 2);
    draw();
    const row = document.getElementById(`${prefix}-${id}`);
    document.querySelectorAll("tr.found").forEach((one) => one.classList.remove("found"));
    found = id;
    row.classList.add("found");
    row.focus({ preventScroll: true });
    scroller.scrollIntoView({ block: "nearest" });
  };
  if (prefix) places.set(prefix, reveal);
  tables.add({ print: (now) => { printing = now; draw(); } });
  update();
  const parts = [filters ? el("div", { class: "tools" }, filter, status) : null, scroller,
    rows.length > 400 ? el("p", { class: "printed" }, "Printed: the first 400 rows, as they are sorted and filtered.") : null];
  return el("div", { class: "table" }, parts);
};

addEventListener("beforeprint", () => tables.forEach((table) => table.print(true)));
addEventListener("afterprint", () => tables.forEach((table) => table.print(false)));

// A short table that is all there: label, then values.
const plainTable = (head, rows, label) =>
  el("div", { class: "wide" }, el("table", { class: "plain", "aria-label": label }, head ? el("thead", {}, el("tr", {}, head.map((text, i) => el("th", { scope: "col", class: i > 0 ? "number" : null }, text)))) : null,
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => (i === 0 ? el("th", { scope: "row" }, cell) : el("td", { class: "number" }, known(cell) ? cell : "–"))))))));
