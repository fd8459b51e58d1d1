// Elements, and text that is safe to show: names in models may be any text. It only ever gets in as text, never as markup.

const el = (tag, properties = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
};

const svg = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
};

// Control characters become pictures of themselves, those that turn the direction of text a box; long text is cut.
const clean = (text, longest = 160) => {
  const whole = String(text);
  const cut = whole.length > longest ? `${whole.slice(0, longest)}…` : whole;
  return cut
    .replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, "▯");
};

// ---- numbers -----------------------------------------------------------------------------------------------------------

const digits = (number) => (number >= 100 ? 0 : number >= 10 ? 1 : 2);
const scaled = (number, base, units) => {
  let unit = 0;
  let value = number;
  while (Math.abs(value) >= base && unit + 1 < units.length) {
    value /= base;
    unit += 1;
  }
  return `${unit === 0 && Number.isInteger(value) ? value : value.toFixed(digits(Math.abs(value)))} ${units[unit]}`;
};
const count = (number) => Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
const many = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const bytes = (number) => scaled(number, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const flops = (number) => scaled(number, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"]);
const micros = (number) =>
  number >= 1e6 ? `${(number / 1e6).toFixed(2)} s` : number >= 1000 ? `${(number / 1000).toFixed(digits(number / 1000))} ms` : `${number.toFixed(digits(number))} µs`;
const rate = (number) => (number >= 1000 ? count(number) : number.toFixed(digits(number)));
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;
const greatest = (list) => list.reduce((a, b) => Math.max(a, b), 0); // of any length
const addTo = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
const known = (value) => value !== undefined && value !== null;
const sum = (list, value) => list.reduce((total, one) => total + (value(one) || 0), 0);

// ---- places on the page that names lead to -----------------------------------------------------------------------------

// Prefix of an anchor ("node", "step") to what shows the row of that number; tables draw only what is in sight.
const places = new Map();
const goTo = (anchor) => {
  const found = /^([a-z]+)-(\d+)$/.exec(anchor);
  const place = found && places.get(found[1]);
  if (place) place(Number(found[2]));
};
const link = (anchor, text, properties = {}) =>
  el("a", { href: `#${anchor}`, ...properties, onclick: (event) => { event.preventDefault(); history.replaceState(null, "", `#${anchor}`); goTo(anchor); } }, text);

const section = (id, title, lead, ...children) =>
  el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), lead ? el("p", { class: "lead" }, lead) : null, ...children);
