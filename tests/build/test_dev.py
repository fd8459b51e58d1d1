"""./dev: what can be tried from inside the environment. Making the root file system needs a bare host; CI's is one."""

import functools
import hashlib
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import threading

import pytest

SOURCE = pathlib.Path(os.environ["CTXGEN_SOURCE"])
DEV = SOURCE / "dev"


def dev(*arguments, **more):
    return subprocess.run([DEV, *arguments], capture_output=True, text=True, check=False, timeout=60, **more)


def test_help_names_every_verb():
    verbs = re.search(r"case \$verb in(.*)\n  esac", DEV.read_text(), re.S)[1]
    names = {name for alternatives in re.findall(r"^    ([a-z |-]+)\)", verbs, re.M) for name in re.findall(r"[a-z]+", alternatives)}
    assert {"build", "test", "demo", "bench", "ctxgen", "shell", "clean"} <= names
    text = dev("help").stdout
    assert not [name for name in names - {"h"} if not re.search(rf"\b{name}\b", text)]


VERBS = ["asan", "bench", "build", "clean", "conformance", "demo", "fleet-test", "format", "fuzz", "languages-test", "lint", "memory-test",
         "operators-doc", "package", "package-test", "plugin-matrix", "report-test", "test", "tsan"]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_builds_nothing(tmp_path, verb):
    for option in ("--help", "-h"):
        done = dev(verb, option, env=os.environ | {"CTXGEN_BUILD_DIR": str(tmp_path / "build")})
        assert done.returncode == 0, done.stderr
        assert done.stdout.lower().startswith("usage: ")
        assert not done.stderr
    assert not list(tmp_path.iterdir())


def test_status_arguments_and_standard_input_pass_through():
    assert dev("sh", "-c", "exit 42").returncode == 42
    assert dev("--", "printf", "%s|", "a b", "", "*").stdout == "a b||*|"
    assert dev("cat", input="words\n").stdout == "words\n"
    assert dev("no-such-command").returncode == 127


def test_signals_pass_through():
    script = "trap 'echo caught; exit 130' INT; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen([DEV, "sh", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "caught\n"
        assert process.wait(10) == 130


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["test", "--preset", "fast"], "no preset"),
        (["build", "--fast"], "no option"),
        (["--fast"], "no option"),
        (["--suite"], "--suite needs"),
        (["--suite", "bullseye", "true"], "inside of the"),
        (["--packages"], "--packages needs"),
        (["--packages", "none", "true"], "no list packages-none.txt"),
        (["fuzz", "nothing"], "no fuzz target"),
    ],
)
def test_wrong_uses_are_refused(arguments, message):
    done = dev(*arguments)
    assert done.returncode == 1
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_each_fuzz_target_has_a_corpus():
    targets = dev("fuzz", "--list").stdout.split()
    folders = sorted(path.name for path in (SOURCE / "tests/fuzz/corpus").iterdir())
    assert targets == folders
    assert sum(path.stat().st_size for path in (SOURCE / "tests/fuzz/corpus").glob("*/*")) < 200 * 1024


ONE_LINE = """\
# deb [trusted=yes] {host}/commented/debian bookworm main
deb [trusted=yes] {host}/other/debian bookworm stable
deb [arch=amd64 trusted=yes] {host}/debian-security bookworm-security main
deb [trusted=yes] {host}/some/debian bookworm main contrib
"""
DEB822 = """\
Types: deb
URIs: {host}/other/debian
Suites: bookworm
Components: stable
Trusted: yes

Types: deb
URIs: {host}/debian-security
Suites: bookworm-security
Components: main
Trusted: yes

Types: deb
URIs: {host}/some/debian/
Suites: bookworm
Components: main contrib
Trusted: yes
"""


@pytest.fixture
def archives(tmp_path):
    """Four apt archives of one package each, served to this machine only."""
    index = b"Package: some\nVersion: 1\nArchitecture: amd64\nFilename: some.deb\nSize: 0\nDescription: none\n\n"
    for place, label, suite, components in [
        ("commented/debian", "Debian", "bookworm", ["main"]),
        ("other/debian", "Docker CE", "bookworm", ["stable"]),
        ("debian-security", "Debian-Security", "bookworm-security", ["main"]),
        ("some/debian", "Debian", "bookworm", ["main", "contrib"]),
    ]:
        dists = tmp_path / "www" / place / "dists" / suite
        files = ""
        for component in components:
            packages = dists / component / "binary-amd64" / "Packages"
            packages.parent.mkdir(parents=True)
            packages.write_bytes(index)
            files += f" {hashlib.sha256(index).hexdigest()} {len(index)} {packages.relative_to(dists)}\n"
        dists.joinpath("Release").write_text(
            f"Origin: Debian\nLabel: {label}\nSuite: {suite}\nCodename: {suite}\nDate: Sat, 01 Jan 2022 00:00:00 UTC\n"
            f"Architectures: amd64\nComponents: {' '.join(components)}\nSHA256:\n{files}"
        )

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=tmp_path / "www")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name, text", [("x.list", ONE_LINE), ("x.sources", DEB822)], ids=["one-line", "deb822"])
def test_mirror_comes_from_the_hosts_sources(tmp_path, archives, name, text):
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / name).write_text(text.format(host=archives))
    config = tmp_path / "apt.conf"
    config.write_text(
        f'Dir::Etc::SourceList "/dev/null"; Dir::Etc::SourceParts "{parts}"; Dir::State "{tmp_path}"; Dir::Cache "{tmp_path}";'
        'APT::Sandbox::User ""; Acquire::http::Proxy "DIRECT"; Acquire::Check-Valid-Until "false";'
    )
    environment = {**os.environ, "APT_CONFIG": str(config)}
    updated = subprocess.run(["apt-get", "update"], env=environment, capture_output=True, text=True, check=False)
    assert updated.returncode == 0, updated.stdout + updated.stderr
    command = ["bash", "-c", f'source "{DEV}"; host_mirror']
    found = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False).stdout
    assert found == f"{archives}/some/debian/\n"


def test_presets_are_the_ones_of_cmake():
    listed = re.search(r"^presets=\((.*)\)$", DEV.read_text(), re.M)[1].split()
    presets = json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]
    assert listed == [preset["name"] for preset in presets if not preset.get("hidden")]


def test_packages_are_listed_once_and_installed():
    texts = [path.read_text() for path in (SOURCE / "packages.txt", SOURCE / f"packages-{os.environ.get('CTXGEN_ENV_PACKAGES')}.txt") if path.exists()]
    lines = [line.split("#")[0].strip() for line in "\n".join(texts).splitlines()]
    names = [line.removesuffix("?") for line in lines if line]
    assert len(names) == len(set(names))
    command = ["dpkg-query", "-W", "-f", "${Package}\n", *names]
    installed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    optional = {line.removesuffix("?") for line in lines if line.endswith("?")}
    assert set(names) - set(installed) <= optional


def in_copy(folder, script):
    """Runs `script` with the functions of a copy of ./dev in `folder`, next to lists of packages."""
    (folder / ".ci").mkdir(exist_ok=True)
    for name in ("dev", ".ci/environment.sh"):
        (folder / name).write_text((SOURCE / name).read_text())
    (folder / "packages.txt").write_text("g++ # compiler\n\nsome?\n")
    (folder / "packages-browser.txt").write_text("chromium\ng++\n")
    command = ["bash", "-c", f'source "{folder}/dev"; set +e; suite=forky; packages=; {script}']
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_list_of_its_own_adds_packages(tmp_path):
    assert in_copy(tmp_path, "listed_packages").stdout.split() == ["g++", "some?"]
    assert in_copy(tmp_path, "packages=browser; listed_packages").stdout.split() == ["g++", "some?", "chromium"]


def test_a_list_of_its_own_has_a_root_and_builds_of_its_own(tmp_path):
    hashes = in_copy(tmp_path, "packages_hash; packages=browser; packages_hash").stdout.split()
    assert len(set(hashes)) == 2
    show = "use_preset dev; echo $build"
    folders = in_copy(tmp_path, f"unset CTXGEN_BUILD_DIR; {show}; packages=browser; {show}; suite=trixie; {show}; packages=; {show}").stdout.split()
    assert [str(pathlib.Path(folder).relative_to(tmp_path / "build")) for folder in folders] == [
        "dev", "browser/dev", "trixie-browser/dev", "trixie/dev"]  # fmt: skip


def test_unknown_lists_are_refused_with_the_known_ones(tmp_path):
    done = in_copy(tmp_path, "packages=none; check_packages")
    assert done.returncode == 1 and "packages-none.txt" in done.stderr and "packages-browser.txt" in done.stderr


def test_the_inside_of_one_environment_is_not_another(tmp_path):
    done = in_copy(tmp_path, "CTXGEN_IN_ENV=1; CTXGEN_ENV_SUITE=forky; CTXGEN_ENV_PACKAGES=; packages=browser; host_is_environment")
    assert done.returncode == 1 and "./dev --packages browser" in done.stderr
    done = in_copy(tmp_path, "CTXGEN_IN_ENV=1; CTXGEN_ENV_SUITE=forky; CTXGEN_ENV_PACKAGES=browser; packages=browser; host_is_environment")
    assert done.returncode == 0
