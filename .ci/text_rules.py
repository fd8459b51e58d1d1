"""Rules about words in sources and pages, for `./dev lint`. Each has a name, where it holds, what it refuses and what to write instead.

What pages cite and link is checked by tests/docs.
"""

import dataclasses
import pathlib
import re

CODE = ("lib/", "apps/", "plugins/")
PAGES = ("docs/", "README.md", "CHANGELOG.md")


@dataclasses.dataclass(frozen=True)
class Rule:
    name: str
    where: tuple[str, ...]  # beginnings of paths
    pattern: re.Pattern
    instead: str
    most: int = 0  # occurrences that are there still; only ever made smaller
    but: tuple[str, ...] = ()  # beginnings of paths where it does not hold


def words(*alternatives: str) -> re.Pattern:
    return re.compile(r"\b(?:" + "|".join(alternatives) + r")\b")


RULES = (
    Rule("is-no", CODE + PAGES, words("(?<!there )(?<!There )(?:is|are) no"), '"X must be Y, got Z", or "is not a"', most=2),
    Rule("as-it-stands", CODE + PAGES, words("as it stands", "stands behind", "lies in"), "say what it is: unchanged, is in"),
    Rule("nobody", CODE + PAGES, words("nobody", "whoever", "somebody"), "name who, or use the passive"),
    Rule("anew", CODE + PAGES, words("anew", "for ever", "everybody", "anybody"), "again; forever; every caller, any thread"),
    Rule("longest-unused", CODE + PAGES, words("used for longest"), "least recently used"),
    Rule("lies", CODE + PAGES, words("lies", "may lie", "would lie"), "is, may be"),
    Rule("behind", CODE + PAGES, words("behind (?:the|a|an|it|its|one)"), "after", most=3),
    Rule("beside", CODE + PAGES, words("beside (?:the|a|an|it|its|them)"), "next to; besides"),
    Rule("openmp", CODE, re.compile(r"\bomp_(?!workers)|#pragma omp|<omp\.h>"), "take a Workers&", but=("lib/backend/onednn/exec/plan/omp_workers.",)),
    Rule("threads", CODE, re.compile(r"\bstd::j?thread\b(?!::)"), "Workers (base/workers.h)", but=("lib/base/workers.cpp", "apps/ctxgen/running/bench_measure.cpp", "lib/remote/upload_queue.", "lib/backend/onednn/exec/run/team_threads.")),
    Rule("todo", CODE, re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\(#\d+\))"), "TODO(#12): a TODO names its issue"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: Rule

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule.name}: {self.rule.instead}"


def findings(rule: Rule, files: dict[str, str]) -> list[Finding]:
    """What a rule refuses in `files` (path -> text)."""
    found = []
    for path, text in files.items():
        if path.startswith(rule.where) and not (rule.but and path.startswith(rule.but)):
            found += [Finding(path, text.count("\n", 0, match.start()) + 1, rule) for match in rule.pattern.finditer(text)]
    return found


def refused(files: dict[str, str], rules: tuple[Rule, ...] = RULES) -> list[str]:
    """Lines to print; empty if all rules hold."""
    lines = []
    for rule in rules:
        found = findings(rule, files)
        if len(found) > rule.most:
            lines += [str(finding) for finding in found]
            if rule.most:
                lines.append(f"{rule.name}: {len(found)} times, {rule.most} at most: write the new ones otherwise")
        elif len(found) < rule.most:
            lines.append(f"{rule.name}: {len(found)} times, fewer than the {rule.most} in .ci/text_rules.py: write {len(found)} there")
    return lines


def read(root: pathlib.Path, paths: list[str]) -> dict[str, str]:
    suffixes = {".h", ".cpp", ".c", ".py", ".md", ".txt", ".cmake", ".proto", ".in", ".json", ".yml", ".sh"}
    return {path: (root / path).read_text(errors="replace") for path in paths if pathlib.Path(path).suffix in suffixes}
