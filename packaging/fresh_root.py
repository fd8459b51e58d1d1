"""Minimal root file systems of Debian suites, to install packages in as a user would."""

import os
import pathlib
import shutil
import subprocess
import time

MIRROR = "http://deb.debian.org/debian"
NEWEST_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Runs in a mount namespace of its own: $1 is the root, the rest a command.
ENTER = """
set -eu
root=$1
shift
for path in /dev /proc /sys; do mkdir -p "$root$path"; mount --rbind "$path" "$root$path"; done
exec chroot "$root" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive NO_COLOR=1 \\
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
"""


class Failed(Exception):
    """A command that did not end as it should, with what it printed."""


class FreshRoot:
    """A copy of a suite's minimal root; deleted at the end of a `with`."""

    def __init__(self, base, folder, log):
        self.folder, self.log = folder, log
        subprocess.run(["cp", "-a", "--reflink=auto", base, folder], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command, status=0, timeout=900):
        """What a command in the root prints."""
        words = [str(word) for word in command]
        started = time.monotonic()
        finished = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "enter", self.folder, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False, timeout=timeout,
        )  # fmt: skip
        self.log.write(f"$ {' '.join(words)}\n{finished.stdout}[{finished.returncode}, {time.monotonic() - started:.1f} s]\n\n")
        self.log.flush()
        if finished.returncode != status:
            raise Failed(f"{' '.join(words)}: status {finished.returncode}, expected {status}\n{finished.stdout[-3000:]}")
        return finished.stdout

    def shell(self, text, **more):
        return self.run("sh", "-ec", text, **more)

    def install(self, *packages):
        self.run("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages)

    def put(self, source, target):
        """Copies a file or folder to a place in the root."""
        place = self.folder / str(target).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if pathlib.Path(source).is_dir():
            shutil.copytree(source, place, dirs_exist_ok=True)
        else:
            shutil.copy(source, place)


def make_base(suite, folder, log):
    """A suite with apt and nothing else."""
    command = ["mmdebstrap", "--mode=root" if os.geteuid() == 0 else "--mode=unshare", "--variant=apt", f"--keyring={NEWEST_KEYS}",
               "--aptopt=Acquire::Check-Valid-Until \"false\"", "--aptopt=APT::Sandbox::User \"root\"", suite, str(folder), MIRROR]  # fmt: skip
    finished = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    log.write(f"$ {' '.join(command)}\n{finished.stdout}\n")
    if finished.returncode != 0:
        raise Failed(f"making the root of {suite} failed\n{finished.stdout[-3000:]}")
    shutil.rmtree(folder / "var/lib/apt/lists", ignore_errors=True)  # as on a machine that has not asked yet
    (folder / "etc/resolv.conf").write_text(pathlib.Path("/etc/resolv.conf").read_text())
    return folder
