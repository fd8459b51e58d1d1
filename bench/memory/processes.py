"""What the kernel says of a process's memory."""

import pathlib


def status_bytes(pid, key):
    """A field of /proc/PID/status, or 0 when the process is gone."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"
