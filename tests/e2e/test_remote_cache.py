"""The remote cache: what other machines take from it, and that no server, however it fails, costs more than a stated time or changes a byte."""

import collections
import contextlib
import hashlib
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest
from cli_support import ctxgen, done, json_of, refused, save
from test_compile_cache import layers_model


def field(number, body):
    assert len(body) < 128
    return bytes([number << 3 | 2, len(body)]) + body


# An OutputFile of an ActionResult: a blob that declares 2^62 bytes.
HUGE_BLOB = field(2, field(1, b"blob/" + b"0" * 32) + field(2, field(1, b"0" * 64) + b"\x10" + b"\x80" * 8 + b"\x40"))


class Handler(http.server.BaseHTTPRequestHandler):
    """A store for GET, HEAD and PUT; what it does wrong is in server.fault."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self):
        self.server.requests.append((self.command, self.path))
        self.server.headers_seen.append(dict(self.headers))

    def answer(self, status, body=b"", length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.fault == "slow":
            with contextlib.suppress(OSError):
                for at in range(len(body)):
                    self.wfile.write(body[at : at + 1])
                    self.wfile.flush()
                    if self.server.over.wait(1):
                        break
            self.close_connection = True
            return
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def body_of(self):
        body = self.server.store.get(self.path)
        fault = self.server.fault
        if fault == "evicted" and self.path.startswith("/cas/"):
            return None
        if fault == "page":
            return b"<html>please log in</html>"
        if body is not None and self.path.startswith("/cas/"):
            if fault == "flip":
                return bytes([body[0] ^ 1]) + body[1:]
            if fault == "short":
                return body[:-1]
            if fault == "long":
                return body + b"x"
        if body is not None and self.path.startswith("/ac/"):
            if fault == "another":
                return self.server.another
            if fault == "cut":
                return body[: len(body) // 2]
            if fault == "huge":
                return body + HUGE_BLOB
        return body

    def do_GET(self):
        self.note()
        if self.server.fault == "hang":
            self.server.over.wait()
            return
        if self.server.fault == "broken":
            self.answer(500, b"no")
        elif self.server.fault == "moved":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.server.token and self.headers.get("X-Token") != self.server.token:
            self.answer(401)
        elif (body := self.body_of()) is None:
            self.answer(404)
        else:
            self.answer(200, body)

    do_HEAD = do_GET

    def do_PUT(self):
        self.note()
        if self.server.fault == "hang puts":
            self.server.over.wait()
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.fault in ("full", "read-only"):
            self.answer(507 if self.server.fault == "full" else 403)
            return
        if self.path.startswith("/cas/"):
            assert self.path == "/cas/" + hashlib.sha256(body).hexdigest()
        self.server.store[self.path] = body
        self.answer(201)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.store, self.requests, self.headers_seen = {}, [], []
        self.fault, self.token, self.another = None, None, b""
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # clients leave in the middle

    def stop(self):
        self.over.set()
        self.shutdown()
        self.server_close()

    def counts(self):
        return collections.Counter((method, path.split("/")[1]) for method, path in self.requests)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    yield server
    server.stop()


class Machine:
    """A folder of its own for the cache and the outputs; the models are the same on all machines."""

    def __init__(self, folder, name, model):
        self.folder, self.model = folder / name, model
        self.cache = self.folder / "cache"
        self.folder.mkdir()

    def options(self, server, *more):
        return ["--cache-dir", self.cache, "--cache-url", server.url, "--cache-timeout", "2", *more]

    def compile(self, *options):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        report = json_of("compile", self.model, "-o", out / "net_ctx.onnx", *options)
        return report, {path.name: path.read_bytes() for path in sorted(out.iterdir())}

    def remote(self, server, *more):
        report, files = self.compile(*self.options(server, *more))
        return report, report["remote_cache"], files


@pytest.fixture
def machines(tmp_path):
    model = save(layers_model(), tmp_path / "net.onnx")
    return [Machine(tmp_path, name, model) for name in ("first", "second", "third")]


@pytest.fixture
def filled(server, machines):
    """The server after the first machine's compile, and what that wrote."""
    _, counts, files = machines[0].remote(server)
    assert counts["stored"] == 1, counts
    server.requests.clear()
    return files


def test_another_machine_compiles_nothing(server, machines):
    _, plain = machines[0].compile()
    report, counts, files = machines[0].remote(server)
    assert files == plain
    assert (counts["hits"], counts["misses"], counts["stored"], counts["errors"]) == (0, 1, 1, 0)
    assert report["programs_compiled"] == 1 and counts["bytes_sent"] > 4 * 256 * 256 * 4
    report, counts, files = machines[1].remote(server)
    assert files == plain
    assert (counts["hits"], counts["misses"], counts["stored"], counts["errors"]) == (1, 0, 0, 0)
    assert report["programs_compiled"] == 0 and report["outputs_cached"]
    assert counts["bytes_received"] > 4 * 256 * 256 * 4


def test_the_local_cache_is_asked_first(server, machines, filled):
    report, files = machines[0].compile(*machines[0].options(server))
    assert files == filled and "remote_cache" not in report
    assert not server.requests


def test_the_layout_is_bazels(server, filled):
    paths = sorted(server.store)
    assert all(re.fullmatch("/(ac|cas)/[0-9a-f]{64}", path) for path in paths)
    assert sum(path.startswith("/ac/") for path in paths) == 1
    action = server.store[paths[0]]
    for path in paths[1:]:
        assert path[5:].encode() in action, "every content is an output file of the action"
        assert hashlib.sha256(server.store[path]).hexdigest() == path[5:]


def test_contents_that_are_there_are_not_sent_again(server, machines, filled):
    """Other options, the same weights."""
    _, counts, _ = machines[0].remote(server, "--dim", "n=2")
    assert counts["stored"] == 1 and counts["bytes_sent"] < 256 * 256 * 4
    # A machine that has the weights fetches the rest only.
    machines[1].remote(server)
    _, counts, _ = machines[1].remote(server, "--dim", "n=2")
    assert counts["hits"] == 1 and counts["bytes_received"] < 256 * 256 * 4


def test_other_models_and_options_are_misses(server, machines, filled):
    _, counts, _ = machines[1].remote(server, "--freeze-initializers")
    assert counts["misses"] == 1
    save(layers_model(changed=1), machines[2].model)
    _, counts, _ = machines[2].remote(server)
    assert (counts["hits"], counts["misses"]) == (0, 1)


@pytest.mark.parametrize("fault", ["flip", "short", "long", "page", "another", "cut", "huge", "broken", "moved"])
def test_a_lie_is_an_error_and_changes_nothing(server, machines, filled, fault):
    save(layers_model(changed=3), machines[2].model)
    before = set(server.store)
    machines[2].remote(server)
    server.another = next(server.store[path] for path in set(server.store) - before if path.startswith("/ac/"))
    save(layers_model(), machines[1].model)
    server.fault = fault
    for _ in range(2):  # nothing of it stays in the local cache
        report, counts, files = machines[1].remote(server)
        assert files == filled
        assert (counts["hits"], counts["errors"]) == (0, 1), counts
        assert ("more than the local cache" if fault == "huge" else "") in counts["problem"] != ""
        shutil.rmtree(machines[1].cache / "output", ignore_errors=True)
    server.fault = None
    _, counts, files = machines[1].remote(server)
    assert files == filled and counts["hits"] == 1


def test_an_evicted_content_is_a_miss_and_comes_back(server, machines, filled):
    server.fault = "evicted"
    _, counts, files = machines[1].remote(server)
    assert files == filled and (counts["misses"], counts["errors"]) == (1, 0)
    server.fault = None
    assert machines[2].remote(server)[1]["hits"] == 1


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_server_that_takes_nothing_is_read(server, machines, filled, fault):
    server.fault = fault
    _, counts, files = machines[1].remote(server)
    assert files == filled and counts["hits"] == 1
    _, counts, _ = machines[1].remote(server, "--dim", "n=4")
    assert (counts["misses"], counts["stored"], counts["errors"]) == (1, 0, 1)
    assert ("507" if fault == "full" else "403") in counts["problem"]
    assert machines[1].compile("--cache-dir", machines[1].cache, "--dim", "n=4")[0]["outputs_cached"]


@pytest.mark.parametrize("fault", ["hang", "slow", "hang puts"])
def test_a_slow_server_costs_its_time_and_no_more(server, machines, filled, fault):
    server.fault = fault
    more = ["--dim", "n=4"] if fault == "hang puts" else []
    _, expected = machines[0].compile(*more)
    start = time.monotonic()
    report, counts, files = machines[1].remote(server, *more)
    took = time.monotonic() - start
    assert files == expected and counts["errors"] == 1
    assert took < 2 + 1 + report["seconds"] - counts["seconds_waited"] + 2
    assert 1 < counts["seconds_waited"] < 4, counts


def test_a_server_that_is_away(machines, server):
    _, expected = machines[0].compile()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    start = time.monotonic()
    _, counts, files = machines[1].remote(server)
    assert time.monotonic() - start < 10
    assert files == expected and (counts["misses"], counts["errors"]) == (0, 1)
    process = ctxgen("compile", machines[1].model, "--dim", "n=3", *machines[1].options(server))
    assert process.returncode == 0
    assert "remote cache: 0 hits, 0 misses, 0 stored, 1 error" in process.stdout
    assert "warning: remote cache: " in process.stderr


def test_a_server_that_dies_meanwhile(server, machines, filled):
    """Killed between the list and the contents, and in the middle of them."""
    expected = filled
    for stop_after in (1, 2):
        original = Handler.body_of

        def body_of(self, original=original, stop_after=stop_after):
            if len(self.server.requests) > stop_after:
                self.connection.shutdown(socket.SHUT_RDWR)
            return original(self)

        server.requests.clear()
        Handler.body_of = body_of
        try:
            _, counts, files = machines[1].remote(server)
        finally:
            Handler.body_of = original
        assert files == expected and counts["errors"] == 1
        shutil.rmtree(machines[1].cache)


def test_credentials_come_from_files_and_go_nowhere_else(server, machines, tmp_path):
    server.token = "s3cret-t0ken"
    _, counts, _ = machines[0].remote(server)
    assert counts["errors"] == 1 and "401" in counts["problem"]
    headers = tmp_path / "headers"
    headers.write_text("X-Token: s3cret-t0ken\n")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password pass-w0rd\n")
    environment = {**os.environ, "NETRC": str(netrc)}
    out = machines[1].folder / "net_ctx.onnx"
    command = ["compile", machines[1].model, "-o", out, *machines[1].options(server, "--cache-headers", headers), "-v", "--report", tmp_path / "report.json"]
    process = subprocess.run([os.environ["CTXGEN_BIN"], *map(str, command)], env=environment, capture_output=True, text=True, check=True)
    assert "1 stored, 0 errors" in process.stdout
    assert server.headers_seen[-1]["Authorization"].startswith("Basic ")
    said = process.stdout + process.stderr + (tmp_path / "report.json").read_text()
    written = b"".join(path.read_bytes() for path in machines[1].folder.rglob("*") if path.is_file())
    for secret in ("s3cret", "pass-w0rd", "X-Token"):
        assert secret not in said and secret.encode() not in written


def test_options_that_would_do_nothing_are_refused(server, machines):
    model, url = machines[0].model, server.url
    refused(1, "INVALID_ARGUMENT", "compile", model, "--cache-url", url, names=["--cache-url", "--cache-dir"])
    local = ["--cache-dir", machines[0].cache]
    refused(1, "INVALID_ARGUMENT", "compile", model, *local, "--cache-headers", model, names=["--cache-headers", "--cache-url"])
    refused(1, "INVALID_ARGUMENT", "compile", model, *local, "--cache-timeout", "3", names=["--cache-timeout"])
    refused(1, "INVALID_ARGUMENT", "compile", model, *local, "--cache-url", url, "--cache-timeout", "0", names=["--cache-timeout"])
    refused(1, "INVALID_ARGUMENT", "compile", model, *local, "--cache-url", url, "--embed", "-o", "-", names=["--cache-url"])
    refused(1, "INVALID_ARGUMENT", "compile", model, *local, "--cache-url", "http://a:b@c", names=["credentials"])
    assert not server.requests


def test_the_environment_names_the_server(server, machines, monkeypatch):
    monkeypatch.setenv("CTXGEN_CACHE_URL", server.url)
    report, _ = machines[0].compile("--cache-dir", machines[0].cache)
    assert report["remote_cache"]["stored"] == 1
    report, _ = machines[1].compile("--cache-dir", "")
    assert "remote_cache" not in report


def test_lookup_says_where_a_compile_would_come_from(server, machines):
    first, second = machines[:2]

    def lookup(machine, *more):
        process = ctxgen("cache", "lookup", machine.model, "-o", machine.folder / "out" / "net_ctx.onnx", *machine.options(server), "--json", *more)
        return process.returncode, json.loads(process.stdout)

    for machine in machines:
        (machine.folder / "out").mkdir()
    status, found = lookup(first)
    assert (status, found["place"]) == (4, "nowhere") and found["remote_cache"]["misses"] == 1
    report, *_ = first.remote(server)
    status, found = lookup(first)
    assert (status, found["place"], found["key"]) == (0, "folder", report["key"])
    status, found = lookup(second)
    assert (status, found["place"], found["key"]) == (0, "remote", report["key"])
    assert not (second.cache / "blob").exists(), "nothing was fetched"
    assert lookup(second, "--dim", "n=9")[0] == 4
    server.fault = "evicted"
    assert lookup(second)[0] == 4
    server.fault = "broken"
    status, found = lookup(second)
    assert (status, found["place"]) == (4, "nowhere") and found["remote_cache"]["errors"] == 1
    assert "in the folder" in done("cache", "lookup", first.model, "-o", first.folder / "out" / "net_ctx.onnx", "--cache-dir", first.cache).stdout
    refused(1, "INVALID_ARGUMENT", "cache", "lookup", first.model, names=["--cache-dir"])


def test_a_list_shares_it(server, machines, tmp_path):
    """Each process of a list asks and stores."""
    lines = []
    for number in range(4):
        lines.append(str(save(layers_model(changed=number), tmp_path / f"m{number}.onnx")))
    (tmp_path / "models.txt").write_text("\n".join(lines) + "\n")
    outputs = {}
    for machine in machines[:2]:
        out = machine.folder / "list"
        done("compile", "--list", tmp_path / "models.txt", "-o", out, "-j", "2", *machine.options(server))
        outputs[machine] = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
    assert outputs[machines[0]] == outputs[machines[1]]
    assert sum(path.startswith("/ac/") for path in server.store) == 4
