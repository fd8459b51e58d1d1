// Puts the page together.

const page = document.getElementById("page");
const title = document.title;
const content = el("div", { id: "content" });

const show = (model) => {
  places.forEach((_, prefix) => { if (prefix !== "change") places.delete(prefix); });
  const sections = [card(model), nodesSection(model), stepsSection(model), graphSection(model), memorySection(model), rooflineSection(model), weightsSection(model), findingsSection(model), accuracySection(model)].filter(Boolean);
  content.replaceChildren(...sections);
  return sections;
};

const navigation = (sections) => el("nav", { class: "sections", "aria-label": "sections" }, sections.filter((one) => one.querySelector("h2")).map((one) => {
  const number = one.id === "findings" ? ` ${one.querySelectorAll(".lint").length}` : "";
  return el("a", { href: `#${one.id}` }, one.querySelector("h2").textContent, number ? el("span", { class: "badge" }, number.trim()) : "");
}));

const top_ = el("header", {}, el("h1", { title }, clean(title, 90)));
const first = show(reports[0]);
let chooser = null;
if (reports.length > 1) {
  chooser = el("div", { class: "choice chooser", role: "radiogroup", "aria-label": "details of" }, el("span", {}, "Details of"), reports.map((model, i) =>
    el("label", {}, el("input", { type: "radio", name: "report", value: i, checked: i === 0, onchange: () => {
      const chosen = document.querySelector("tr.found .name");
      const name = chosen && chosen.textContent;
      show(model);
      const same = name && model.nodes.find((node) => clean(node.name) === name);
      if (same) goTo(`node-${same.id}`);
    } }), `${"AB"[i]}: ${clean(model.report.file.name, 60)}`)));
}
const compared = reports.length > 1 ? comparison(reports[0], reports[1]) : null;
top_.append(navigation([compared, ...first].filter(Boolean)));
page.replaceChildren(top_, el("main", {}, compared, chooser, content));
addEventListener("hashchange", () => goTo(location.hash.slice(1)));
if (location.hash) {
  goTo(location.hash.slice(1));
  const target = document.getElementById(location.hash.slice(1));
  if (target) target.scrollIntoView();
}
document.documentElement.dataset.ready = "true"; // tests wait for it
