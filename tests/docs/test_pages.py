"""The pages: each can be found from the README, links lead somewhere, and nothing cites a page or file that is not here."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "apps", "bench", "cmake", "docs", "lib", "plugins", "samples", "tests")
SUFFIXES = {".md", ".h", ".cpp", ".c", ".py", ".sh", ".cmake", ".proto", ".txt", ".json", ".yml", ".map", ".in"}

# Pages that contributors had once and a reader of the repository cannot open. In two halves, so that this file passes.
FOREIGN = re.compile(r"\b(?:DES" r"IGN|STY" r"LE|[Aa]tl" r"as)\b(?!_)")


def files():
    """Everything that people write: no test data, no builds."""
    for path in ROOT.iterdir():
        if path.is_file() and (path.suffix in SUFFIXES or path.name in ("dev", "Dockerfile")):
            yield path
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "corpus" not in path.parts and (path.suffix in SUFFIXES or path.parent.name == ".ci"):
                yield path


FILES = list(files())
PAGES = [path for path in FILES if path.suffix == ".md"]


def name(path):
    return str(path.relative_to(ROOT))


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def links(page):
    """Targets of the page's links and pictures that lead into the repository."""
    text = without_code(page.read_text())
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def headings(page):
    return re.findall(r"^#+ +(.+?) *$", without_code(page.read_text()), re.M)


def anchor(heading):
    """As GitHub and GitLab make them."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def test_every_page_is_linked_from_the_readme_or_the_index():
    linked = set()
    for page in (ROOT / "README.md", ROOT / "docs" / "README.md"):
        linked |= {(page.parent / target.split("#")[0]).resolve() for target in links(page)}
    pages = [path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".json", ".svg")]
    assert len(pages) > 10
    assert [name(page) for page in pages if page.resolve() not in linked] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in links(page):
        path, _, part = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_relative_to(ROOT) and found.exists(), target
        if part:
            assert part in [anchor(heading) for heading in headings(found)], target


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent == ROOT / "docs"], ids=name)
def test_long_pages_have_headings_and_contents(page):
    text = page.read_text()
    assert text.startswith("# ")
    sections = [heading for heading in re.findall(r"^## +(.+?) *$", without_code(text), re.M)]
    if len(text.splitlines()) > 150:
        missing = [heading for heading in sections if f"(#{anchor(heading)})" not in text]
        assert missing == [], "the contents at the page's beginning lack these"


OF_OTHERS = {"ContribOperators.md"}  # ONNX Runtime's


def cited(path, text):
    """Names of Markdown pages in a text, of C and C++ in its comments: docs/cli.md, `format.md`."""
    if path.suffix in (".h", ".cpp", ".c"):
        text = "\n".join(re.findall(r"//[^\n]*|/\*.*?\*/", text, re.S))
    return set(re.findall(r"(?<![\w./*{}$-])((?:[\w-]+/)*[\w-]+\.md)\b", text)) - OF_OTHERS


def test_nothing_cites_a_page_that_is_not_here():
    missing = []
    for path in FILES:
        text = path.read_text(errors="replace")
        for page in cited(path, text):
            if not any((folder / page).exists() for folder in (ROOT, ROOT / "docs", path.parent)):
                missing.append(f"{name(path)}: {page}")
        if foreign := FOREIGN.search(text):
            missing.append(f"{name(path)}: {foreign[0]}")
    assert not missing, "\n".join(missing)


def test_cited_headings_exist():
    """docs/format.md, "Program hash": the page has that heading."""
    missing, count = [], 0
    for path in FILES:
        text = re.sub(r"\n *(?://+|#|\*)? *", " ", path.read_text(errors="replace"))
        for page, heading in re.findall(r'\bdocs/([\w-]+\.md), "([^"]+)"', text):
            count += 1
            if heading not in headings(ROOT / "docs" / page):
                missing.append(f'{name(path)}: docs/{page}, "{heading}"')
    assert not missing, "\n".join(missing)
    assert count > 5


def test_cited_files_exist():
    """Pages and comments name files by their path from the root."""
    pattern = re.compile(r"(?<![\w./-])((?:apps|bench|cmake|docs|lib|plugins|samples|tests)/[\w./-]+\.(?:h|cpp|py|md|json|proto|cmake|onnx))\b(?!\.)")
    missing = []
    for path in FILES:
        for cited_path in set(pattern.findall(path.read_text(errors="replace"))):
            if not (ROOT / cited_path).exists():
                missing.append(f"{name(path)}: {cited_path}")
    assert not missing, "\n".join(missing)


MEASURED = "avx512_core_bf16"  # what the README quotes


def tables_of(heading):
    """Of the table under a heading of that page: row -> heading -> figure."""
    part = (ROOT / "docs" / "benchmarks" / MEASURED).with_suffix(".md").read_text().split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return {row[0]: dict(zip(table[0][1:], row[1:], strict=True)) for row in table[2:]}


def is_rounded(figure, measured):
    """Whether "44" or "4.9" is what a measured "44.1" or "4.93" is in as many digits."""
    figure = figure.replace(",", "")
    return abs(float(figure) - float(measured)) <= 0.5001 * 10 ** -len(figure.partition(".")[2])


MODELS = {"BERT-base": "bert_base", "ResNet-50": "resnet50", "MobileNetV2": "mobilenetv2"}


def test_the_table_of_the_readme_is_that_of_the_benchmarks():
    text = (ROOT / "README.md").read_text()
    peer = re.search(r"Next to (ONNX Runtime [\d.]+)", text)[1]
    columns = ("load, ms", "start to output, ms", "run, median, ms", "private, MB")
    for title, model in MODELS.items():
        shown = re.findall(r"([\d.,]+) → \*\*([\d.,]+)\*\*", re.search(rf"^\| {title}.*$", text, re.M)[0])
        assert len(shown) == len(columns)
        measured = tables_of(model)
        for column, (theirs, ours) in zip(columns, shown, strict=True):
            assert is_rounded(theirs, measured[peer][column]), f"{title}, {column}: {theirs}"
            assert is_rounded(ours, measured["ctxgen"][column]), f"{title}, {column}: {ours}"
    first_run = tables_of(f"ctxgen as a share of {peer} (below")["geometric mean"]["first run"]
    assert f"the *first* run takes {first_run} times as long" in text


def test_times_and_sizes_in_the_readme_were_measured():
    """Each "19 ms" and "643 MB" is a figure of the three models, but the size of the runtime and what ./dev needs."""
    measured = {"ms": set(), "MB": set()}
    for model in MODELS.values():
        for contestant, row in tables_of(model).items():
            for heading, figure in row.items():
                unit = heading.rpartition(", ")[2]
                if unit in measured and figure != "-" and "Debian" not in contestant:
                    measured[unit].add(figure)
    text = (ROOT / "README.md").read_text().split("\n## Install", 1)[0]
    claims = [claim for claim in re.findall(r"(?<![\d.])([\d.,]*\d) (ms|MB)\b", text) if claim != ("8", "MB")]
    assert len(claims) >= 6
    for figure, unit in claims:
        assert any(is_rounded(figure, value) for value in measured[unit]), f"{figure} {unit}"
