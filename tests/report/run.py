#!/usr/bin/env python3
"""Opens pages of `ctxgen report` in headless Chromium: `./dev report-test`.

Each page must be usable soon, say nothing on the console, sort, filter, fold, follow its links, be usable by keyboard, have enough
contrast in both colour schemes, fit narrow windows and print. Models: a small one with hostile names, one of 5,000 nodes, 100,000
nodes on CPU kernels, bench models, and pages of two: of two models, and of one bench model with f32 and with 8-bit weights. With
--pictures the screenshots of docs/images are made again.
Exit status: 0 if all checks passed.
"""

import argparse
import base64
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ModuleNotFoundError:  # --help needs no browser
    webdriver = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cli_support import done  # noqa: E402
from report_support import HOSTILE, chain_model, save  # noqa: E402

USABLE_SECONDS = 5.0  # the largest page, on a slow and busy machine
MODELS = "resnet50,bert_base,swin_t,int4_60m_decode"
TWO_PRECISIONS = "bert_base"  # of the page of f32 and of 8-bit weights: products, which have kernels for these
LEAST_CONTRAST = 4.5  # WCAG 2.2 AA, for text of any size

# Every text with its contrast against the nearest opaque background, as WCAG defines it; those below `least`.
CONTRAST = """
const least = arguments[0];
const channels = (text) => text.match(/[\\d.]+/g).map(Number);
const linear = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const opaque = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = channels(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || element.closest("script, style, title, option") || !element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const svg = element instanceof SVGElement;
  const face = svg && element.parentElement.querySelector(".face");
  const [a, b] = [channels(svg ? style.fill : style.color), face ? channels(getComputedStyle(face).fill) : opaque(svg ? element.ownerSVGElement : element)].map(luminance);
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < least) found.push([walker.currentNode.textContent.trim().slice(0, 40), element.tagName, element.className.baseVal ?? element.className, contrast.toFixed(2)]);
}
return found.slice(0, 10);
"""


@dataclasses.dataclass
class Checks:
    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)

    def that(self, holds, what):
        if holds:
            self.passed += 1
        else:
            self.failed.append(what)
            print(f"  FAILED: {what}", flush=True)

    def equal(self, found, expected, what):
        self.that(found == expected, f"{what}: {found!r}, expected {expected!r}")


class Browser:
    """One window of Chromium, with what it said on its console."""

    def __init__(self, profile):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars", f"user-data-dir={profile}", "window-size=1280,900"):
            options.add_argument(f"--{flag}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))

    def open(self, path, anchor=""):
        """Seconds until the page is ready."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        started = time.monotonic()
        self.driver.get(path.as_uri() + anchor)
        while self.run("return document.documentElement.dataset.ready") != "true":
            if time.monotonic() - started > 60:
                raise TimeoutError(f"{path.name}: not ready; the console says {self.said()}")
            time.sleep(0.02)
        return time.monotonic() - started

    def said(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, *keys):
        for key in keys:  # to the browser: what has the focus may be drawn anew by it
            ActionChains(self.driver).send_keys(key).perform()

    def scheme(self, name):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def picture(self, file, element=None, width=1280, height=860):
        self.size(width, height)
        if element is not None:
            self.run("window.scrollTo(0, arguments[0].getBoundingClientRect().top + scrollY - 84)", element)
        time.sleep(0.2)
        self.driver.save_screenshot(str(file))


def data_of(path):
    text = re.search(r'<script type="application/json" class="report">(.*?)</script>', path.read_text(), re.S)[1]
    return json.loads(text)["report"]


def rows_of(browser, table):
    return [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in browser.all(f"#{table} tbody tr:not(.space)")]


# ---- what is checked of a page --------------------------------------------------------------------------------------------------------


def check_tables(browser, checks, data):
    names = [node["name"] for node in data["nodes"]]
    headers = browser.all("#nodes thead button")
    browser.run("arguments[0].scrollIntoView({block: 'center'})", headers[0])
    headers[0].click()
    checks.equal(browser.one("#nodes th").get_attribute("aria-sort"), "ascending", "sorted by name")
    first = browser.one("#nodes tbody tr:not(.space) td").get_attribute("title")
    checks.that(sorted(names, key=lambda name: name.encode("utf-16-be"))[0][:20].strip() in first.replace("▯", "") or not first.isascii(), f"the first name is first: {first[:40]!r}")
    headers[0].click()
    checks.equal(browser.one("#nodes th").get_attribute("aria-sort"), "descending", "sorted backwards")
    drawn = len(browser.all("#nodes tbody tr"))
    checks.that(drawn < 60, f"only rows in sight are drawn, not {drawn}")
    box = browser.one("#nodes input[type=search]")
    box.send_keys("no such node, surely")
    checks.that(browser.one("#nodes .status").text.startswith("0 of "), "a filter that nothing passes")
    box.clear()
    box.send_keys(Keys.SPACE, Keys.BACKSPACE)
    checks.that("of" not in browser.one("#nodes .status").text, "the filter is gone")


def check_links(browser, checks, data, path):
    links = browser.all("#nodes tbody a")
    if links:
        target = links[0].get_attribute("href").split("#")[1]
        browser.run("arguments[0].scrollIntoView({block: 'center'})", links[0])
        links[0].click()
        checks.equal(browser.one("tr.found").get_attribute("id"), target, "a link to a step")
        checks.equal(browser.run("return document.activeElement.id"), target, "it has the focus")
    last = len(data["nodes"]) - 1
    browser.open(path, f"#node-{last}")
    checks.equal(browser.one("tr.found").get_attribute("id"), f"node-{last}", "an anchor in the address")
    checks.that(browser.run("const r = document.querySelector('tr.found').getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight"), "what the anchor names is in sight")


def check_graph(browser, checks, data):
    boxes = browser.all("#graph .item")
    checks.that(0 < len(boxes) <= 36, f"{len(boxes)} boxes at most 36")
    groups = browser.all("#graph .item:not(.leaf)")
    depth = 0
    while groups and depth < 8:  # by keyboard, to the bottom
        browser.run("arguments[0].focus()", groups[0])
        browser.press(Keys.ENTER)
        depth += 1
        checks.equal(len(browser.all("#graph .crumbs > span")), depth + 1, "one scope further in")
        groups = browser.all("#graph .item:not(.leaf)")
    leaf = browser.all("#graph .item.leaf")
    if leaf:
        browser.run("arguments[0].focus()", leaf[0])
        browser.press(Keys.ENTER)
        checks.that(browser.all("#graph .details a[href^='#node-']"), "a node shows what it is")
    if depth:
        back = browser.all("#graph .crumbs button")[0]
        browser.run("arguments[0].scrollIntoView({block: 'center'})", back)
        back.click()
        checks.equal(len(browser.all("#graph .item")), len(boxes), "back to the whole")
    for choice in browser.all("#graph .choice input"):
        browser.run("arguments[0].click()", choice)
        checks.equal(len(browser.all("#graph .item")), len(boxes), f"coloured by {choice.get_attribute('value')}")


def check_focus_in_rows(browser, checks):
    """A link in a row keeps the focus while the table scrolls under it, as it does where Tab goes from row to row."""
    links = browser.all("#nodes tbody a")
    if not links:
        return
    browser.run("arguments[0].focus()", links[-1])
    browser.run("document.querySelector('#nodes .scroller').scrollTop += 450")
    time.sleep(0.2)
    checks.that(browser.run("return document.activeElement.matches('#nodes tbody a')"), "a link keeps the focus while the table scrolls")
    browser.run("document.querySelector('#nodes .scroller').scrollTop = 0")
    time.sleep(0.2)


def check_keyboard(browser, checks):
    """What can be used can be reached with Tab, in the order of the page, and shows that it has the focus."""
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = set()
    for _ in range(60):
        browser.press(Keys.TAB)
        seen.add(browser.run("const a = document.activeElement; return a.closest('section, nav') ? a.closest('section, nav').id || 'nav' : a.tagName"))
        outline = browser.run("if (document.activeElement === document.body) return true; const s = getComputedStyle(document.activeElement); const f = document.activeElement.querySelector('.face'); return s.outlineStyle !== 'none' || (f && getComputedStyle(f).strokeWidth !== '1px')")
        if not outline:
            checks.that(False, "the focus shows: " + browser.run("return document.activeElement.outerHTML.slice(0, 100)"))
            return
    checks.that({"nav", "nodes"} <= seen, f"Tab reaches {sorted(seen)}")


def check_look(browser, checks):
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        checks.equal(browser.run(CONTRAST, LEAST_CONTRAST), [], f"contrast, {scheme}")
    browser.scheme("light")
    for width in (1280, 800, 400):
        browser.size(width, 900)
        checks.that(browser.run("return document.documentElement.scrollWidth <= innerWidth"), f"nothing is wider than a window of {width}")
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def check_print(browser, checks):
    pdf = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    checks.that(pdf.startswith(b"%PDF") and len(pdf) > 10_000, "it prints")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    rows = len(browser.all("#nodes tbody tr:not(.space)"))
    total = int(re.sub(r"\D", "", browser.one("#nodes .status").text.split(" row")[0]) or 0)
    checks.equal(rows, min(total, 400), "rows in print")
    browser.run("dispatchEvent(new Event('afterprint'))")


def check_page(browser, checks, path):
    data = data_of(path)
    seconds = browser.open(path)
    print(f"{path.stem}: {len(data['nodes'])} nodes, {path.stat().st_size / 1e6:.2f} MB, usable after {seconds:.2f} s", flush=True)
    checks.that(seconds < USABLE_SECONDS, f"usable after {seconds:.2f} s")
    checks.that(browser.run("return document.title") != "taken" and len(browser.all("body img")) == 0, "no name is markup")
    scripts = browser.run("return document.scripts.length")
    checks.equal(scripts, len(re.findall("<script", path.read_text())), "scripts")
    check_keyboard(browser, checks)
    check_focus_in_rows(browser, checks)
    check_tables(browser, checks, data)
    check_graph(browser, checks, data)
    check_links(browser, checks, data, path)
    check_look(browser, checks)
    check_print(browser, checks)
    checks.equal(browser.said(), [], "the console")


def check_two(browser, checks, path):
    print(f"{path.stem}: {path.stat().st_size / 1e6:.2f} MB, usable after {browser.open(path):.2f} s", flush=True)
    checks.equal(browser.all("main > section, main #content > section")[0].get_attribute("id"), "differences", "differences come first")
    before = browser.one("#summary").text
    browser.run("arguments[0].click()", browser.all(".chooser input")[1])
    checks.that(browser.one("#summary").text != before, "the other one is shown")
    check_look(browser, checks)
    checks.equal(browser.said(), [], "the console")


def check_precisions(browser, checks, path):
    """What the page of f32 and of 8-bit weights says first: smaller weights, and steps that are computed otherwise."""
    check_two(browser, checks, path)
    figures = browser.one("#differences").text
    changes = rows_of(browser, "differences .rows")
    print(f"{path.stem}: {browser.one('#differences .status').text}; the first: {' | '.join(changes[0]) if changes else 'none'}", flush=True)
    checks.that(len(changes) > 0, "nodes that run otherwise")
    checks.that("f32 → 8 bit" in figures, "the 8-bit weights are named")


# ---- models and pictures --------------------------------------------------------------------------------------------------------------


def block_model(nodes):
    """Many nodes with scopes in their names, half of which fuse."""
    names = [f"/encoder/layer.{i // 100}/block.{i // 10 % 10}/{'Relu' if i % 2 else 'Softmax'}_{i}" for i in range(nodes)]
    model = chain_model(names, op="Softmax", dims=(8, 16))
    for i, node in enumerate(model.graph.node):
        if i % 2:
            node.op_type = "Relu"
    return model


def make_pages(folder, names):
    pages = []

    def page(name, *arguments):
        pages.append(folder / f"{name}.html")
        done("report", *arguments, "-o", pages[-1])

    page("hostile_names", save(chain_model(HOSTILE, op="Softmax"), folder / "hostile.onnx"), "--iterations", "3", "--verify")
    page("5000_nodes", save(block_model(5000), folder / "many.onnx"), "--iterations", "3")
    page("100000_nodes", save(block_model(100_000), folder / "more.onnx"), "--no-run", "--provider", "cpu")
    for name in names:
        (model,) = (folder / name).glob("*.onnx")
        facts = json.loads((folder / name / "model.json").read_text())
        dims = [f"--dim={dim}={size}" for dim, size in facts.get("dims", {}).items()]
        page(name, model, *dims)
    return pages


def page_of_precisions(folder, name):
    """Context models of one source, with f32 and with 8-bit weights, next to each other."""
    (model,) = (folder / name).glob("*.onnx")
    facts = json.loads((folder / name / "model.json").read_text())
    dims = [f"--dim={dim}={size}" for dim, size in facts.get("dims", {}).items()]
    contexts = []
    for weights, options in {"f32": [], "s8": ["--provider-option=dnnl:weights=s8:32"]}.items():
        contexts.append(folder / f"{name}_{weights}" / f"{name}_{weights}.onnx")
        contexts[-1].parent.mkdir(exist_ok=True)
        done("compile", model, *dims, *options, "-o", contexts[-1])
    page = folder / f"{name}_f32_s8.html"
    done("report", *contexts, "--iterations", "5", "-o", page)
    return page


def make_pictures(browser, page, others, folder):
    """Small ones, for the pages in docs: parts of one page, and the beginning of the others."""
    folder.mkdir(exist_ok=True)
    for other in others:
        browser.open(other)
        browser.picture(folder / f"report-of-{other.stem.replace('_', '-')}.png", browser.one("#graph") if other.stem == "5000_nodes" else None, height=720)
    browser.open(page)
    browser.picture(folder / "report-summary.png")
    browser.picture(folder / "report-graph.png", browser.one("#graph"), height=720)
    browser.scheme("dark")
    browser.picture(folder / "report-roofline.png", browser.one("#memory"), height=980)
    browser.scheme("light")
    for file in folder.glob("report-*.png"):
        print(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=MODELS, help=f"bench models, by commas; none: none (default: {MODELS})")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="keep models and pages there")
    parser.add_argument("--pictures", action="store_true", help="make the pictures in docs/images: of the first bench model, the beginning of the other ones and of 5,000 nodes")
    arguments = parser.parse_args()
    if webdriver is None:
        parser.error("selenium is missing: ./dev report-test brings it")
    names = [] if arguments.models == "none" else arguments.models.split(",")
    if arguments.pictures and not names:
        parser.error("--pictures needs a bench model")
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (arguments.keep or pathlib.Path(scratch) / "pages").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        if names:
            subprocess.run([sys.executable, ROOT / "bench" / "models" / "make.py", *names, "-o", folder], check=True)
        pages = make_pages(folder, names)
        two = folder / "two.html"
        done("report", folder / "hostile.onnx", folder / "many.onnx", "--no-run", "-o", two)
        precisions = page_of_precisions(folder, TWO_PRECISIONS if TWO_PRECISIONS in names else names[0]) if names else None
        browser = Browser(pathlib.Path(scratch) / "profile")
        try:
            for page in pages:
                check_page(browser, checks, page)
            check_two(browser, checks, two)
            if precisions:
                check_precisions(browser, checks, precisions)
            if arguments.pictures:
                first = pages[-len(names)]
                make_pictures(browser, first, [precisions, *(page for page in pages if page != first and (page.stem in names or page.stem == "5000_nodes"))], ROOT / "docs" / "images")
        finally:
            browser.driver.quit()
    print(f"{checks.passed} passed, {len(checks.failed)} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    sys.exit(main())
