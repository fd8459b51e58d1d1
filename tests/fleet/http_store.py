"""nginx as the store of a remote cache: GET, HEAD and PUT below /ac/ and /cas/, and what was asked of it."""

import collections
import os
import pathlib
import shutil
import socket
import subprocess
import time

CONFIGURATION = """\
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; {user}
events {{ worker_connections 256; }}
http {{
  log_format short '$request_method $status $uri $bytes_sent'; access_log {folder}/access.log short;
  client_max_body_size 0; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location ~ ^/(ac|cas)/[0-9a-f]+$ {{ root {folder}/store; dav_methods PUT; create_full_put_path on; dav_access user:rw; }}
    location / {{ return 404; }}
  }}
}}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(ready, what, seconds=30):
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} is not ready after {seconds} s")
        time.sleep(0.05)


def answers(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class HttpStore:
    """A server for the time of a `with`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        configuration = self.folder / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""
        configuration.write_text(CONFIGURATION.format(folder=self.folder, port=self.port, user=user))
        command = [shutil.which("nginx") or "/usr/sbin/nginx", "-c", configuration, "-p", self.folder, "-e", self.folder / "error.log"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_until(lambda: answers(self.port), "nginx")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)

    def asked(self):
        """How many requests of each method and status, below which folder; bytes that GET returned. Since the last call."""
        log = self.folder / "access.log"
        counts, sent = collections.Counter(), 0
        for line in log.read_text().splitlines():
            method, status, path, size = line.split()
            counts[f"{method} {path.split('/')[1]} {status}"] += 1
            sent += int(size) if method == "GET" and status == "200" else 0
        log.write_text("")
        return dict(sorted(counts.items())), sent

    def stored_bytes(self):
        return sum(path.stat().st_size for path in (self.folder / "store").rglob("*") if path.is_file())
