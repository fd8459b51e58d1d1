#!/usr/bin/env python3
"""What CI refuses apart from tests that fail. `./dev lint` runs all checks, `./dev lint format shell` some.

  format    C and C++ as clang-format writes it (./dev format does)
  tidy      clang-tidy with .clang-tidy, over what the build compiles of lib, apps and plugins; --changed: of changed files only
  alone     each source compiles by itself, without what CTXGEN_FAST_BUILD forces into it
  python    ruff with ruff.toml
  shell     shellcheck
  text      .ci/text_rules.py
  docs      links, citations and indexes (tests/docs)
  subjects  subjects of commits: at most 72 characters, `area: what changes`

Each check prints what it refuses and one line with its count and time. Exit status: 0 if none refused anything.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

import text_rules

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLANG = 21  # packages.txt has this version: each formats and warns otherwise
OURS = ("lib/", "apps/", "plugins/")
SUBJECTS_AFTER = "cd9246c3"  # earlier subjects are as they are
FORMAT_COMMIT = 200  # files per clang-format


def run(*command, **more):
    return subprocess.run([str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)


def git(*arguments):
    done = subprocess.run(["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


def tracked(*patterns):
    """Files of the repository, without data; in a source archive, all files."""
    listed = git("ls-files", "-co", "--exclude-standard", "--", *patterns)
    if listed is None:
        listed = [str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.rglob(pattern) if "build" not in path.parts]
    return sorted({path for path in listed if (ROOT / path).is_file() and "/corpus/" not in path})


def cpus():
    return len(os.sched_getaffinity(0))


def each(function, items):
    with concurrent.futures.ThreadPoolExecutor(cpus()) as pool:
        return list(pool.map(function, items))


def parts(items, size):
    return [items[start : start + size] for start in range(0, len(items), size)]


# ---- the checks: each returns what it looked at, counted, and the lines that it refuses ------------------------------------------


def sources():
    return tracked("*.cpp", "*.h", "*.c")


def check_format(_options):
    files = sources()
    done = each(lambda some: run(f"clang-format-{CLANG}", "--dry-run", "-Werror", *some), parts(files, FORMAT_COMMIT))
    bad = sorted({line.split(":")[0] for one in done for line in one.stdout.splitlines() if "[-Wclang-format-violations]" in line})
    other = [one.stdout for one in done if one.returncode and "clang-format-violations" not in one.stdout]
    return f"{len(files)} files", other + [f"{path}: ./dev format writes it otherwise" for path in bad]


def clang_arguments(entry):
    """A command of g++ as clang understands it, without warnings, which are g++'s to give."""
    arguments = shlex.split(entry["command"])
    if "ccache" in arguments[0]:
        arguments = arguments[1:]
    include = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    kept = [a for a in arguments[1:] if not a.startswith(("-W", "-fopenmp"))]
    return ["clang++", *kept, "-w", "-Wno-unknown-pragmas", "-idirafter", include]


def database(build):
    listed = json.loads((build / "compile_commands.json").read_text())
    return [entry for entry in listed if "_verify_interface_header_sets" not in entry["command"]]


def sources_of(entry):
    """The files of the project that a command compiles: one, or those that its unity file includes."""
    path = pathlib.Path(entry["file"])
    if "/Unity/" not in str(path):
        return [os.path.relpath(path, ROOT)]
    return re.findall(r'^#include "(.*)"', path.read_text(), re.M)


def changed_files():
    """Those that differ from main, or from the last commit where this is main."""
    base = (git("merge-base", "main", "HEAD") or [""])[0]
    if base == (git("rev-parse", "HEAD") or ["-"])[0]:
        base = "HEAD~1"
    return set(git("diff", "--name-only", base) or []) | set(git("ls-files", "-o", "--exclude-standard") or [])


def check_tidy(options):
    entries = [entry for entry in database(options.build) if any(path.startswith(OURS) for path in sources_of(entry))]
    if options.changed:
        changed = changed_files()
        entries = [entry for entry in entries if changed.intersection(sources_of(entry))]
    folder = options.build / "lint"
    folder.mkdir(exist_ok=True)
    commands = [{"directory": e["directory"], "file": e["file"], "arguments": clang_arguments(e)} for e in entries]
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    done = each(lambda entry: run(f"clang-tidy-{CLANG}", "--quiet", "-p", folder, entry["file"]), entries)
    lines = []
    for one in done:
        found = [line.replace(f"{ROOT}/", "") for line in one.stdout.splitlines() if re.search(r": (?:error|warning): ", line)]
        lines += found or ([one.stdout] if one.returncode else [])
    return f"{len(entries)} compilations", sorted(set(lines))


def check_alone(options):
    commands = []
    for entry in database(options.build):
        own = [path for path in sources_of(entry) if path.startswith(OURS)]
        if own and "/Unity/" in entry["file"]:
            arguments = shlex.split(entry["command"])
            arguments = arguments[1:] if "ccache" in arguments[0] else arguments
            for flag in ("-o", "-include", "-c"):
                if flag in arguments:
                    at = arguments.index(flag)
                    del arguments[at : at + 2]
            commands += [(entry["directory"], [*arguments, "-w", "-fsyntax-only", str(ROOT / path)]) for path in own]
    done = each(lambda command: subprocess.run(command[1], cwd=command[0], capture_output=True, text=True, check=False), commands)
    return f"{len(commands)} files", [one.stderr for one in done if one.returncode]


def check_python(_options):
    files = tracked("*.py")
    done = run("ruff", "check", "--no-cache", "--quiet", "--output-format", "concise", *files)
    return f"{len(files)} files", done.stdout.splitlines() if done.returncode else []


def check_shell(_options):
    def is_shell(path):
        if path.endswith(".sh"):
            return True
        with open(ROOT / path, "rb") as file:
            return re.match(rb"#!\S+(?:env )?[ /](?:ba)?sh\b", file.readline(80)) is not None

    files = [path for path in tracked("dev", "*.sh", ".ci/*", "samples/*") if is_shell(path)]
    done = run("shellcheck", "--format", "gcc", *files)
    return f"{len(files)} files", done.stdout.splitlines() if done.returncode else []


def check_text(_options):
    files = text_rules.read(ROOT, tracked("."))
    return f"{len(text_rules.RULES)} rules, {len(files)} files", text_rules.refused(files)


def check_docs(_options):
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "tests/docs")
    return "tests/docs", done.stdout.splitlines() if done.returncode else []


def subject_errors(subjects):
    """Pairs of a commit's name and its subject -> lines."""
    lines = []
    for commit, subject in subjects:
        if len(subject) > 72:
            lines.append(f"{commit}: the subject has {len(subject)} characters, 72 at most: {subject}")
        if not re.match(r"(?:Revert \"|[a-z][\w/ .-]*(?:, [\w/ .-]+)*: \S)", subject):
            lines.append(f'{commit}: the subject must begin with an area and a colon ("ctxfile: reject ..."): {subject}')
    return lines


def check_subjects(_options):
    logged = git("log", "--no-merges", "--format=%h %s", f"{SUBJECTS_AFTER}..HEAD")
    if logged is None:  # a shallow clone, or other history
        logged = git("log", "-1", "--no-merges", "--format=%h %s") or []
    return f"{len(logged)} commits", subject_errors([line.split(" ", 1) for line in logged])


CHECKS = {"format": check_format, "python": check_python, "shell": check_shell, "text": check_text, "docs": check_docs,
          "subjects": check_subjects, "tidy": check_tidy, "alone": check_alone}  # fmt: skip
OF_THE_BUILD = ("tidy", "alone")  # read compile_commands.json


def reformat():
    files = sources()
    done = each(lambda some: run(f"clang-format-{CLANG}", "-i", *some), parts(files, FORMAT_COMMIT))
    print("".join(one.stdout for one in done), end="")
    return max(one.returncode for one in done)


def main():
    parser = argparse.ArgumentParser(prog="./dev lint", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--format-all", action="store_true", help=argparse.SUPPRESS)  # ./dev format
    parser.add_argument("--changed", action="store_true", help="tidy: only what differs from main (where this is main: from the commit before)")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="default: all")
    options = parser.parse_args()
    if unknown := set(options.checks) - set(CHECKS):
        parser.error(f"unknown check {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    if options.format_all:
        return reformat()

    failed = []
    for name in [name for name in CHECKS if not options.checks or name in options.checks]:
        started = time.monotonic()
        count, lines = CHECKS[name](options)
        if lines:
            failed.append(name)
            print("\n".join(lines))
        print(f"lint: {name}: {len(lines) or 'nothing'} refused in {count}, {time.monotonic() - started:.1f} s", flush=True)
    if failed:
        print(f"lint: failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
