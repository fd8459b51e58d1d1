"""Where the ctxgen execution provider for ONNX Runtime is, in the form that plugin EP packages use.

    import onnxruntime, onnxruntime_ep_ctxgen as ctxgen
    onnxruntime.register_execution_provider_library("ctxgen", ctxgen.get_library_path())
"""

import os
from pathlib import Path

try:
    from ._needs import GLIBC  # a wheel brings libraries and says what they need
except ImportError:
    GLIBC = None

_NAME = "libctxgen_onnxruntime.so"


def _check_system() -> None:
    """Raises OSError where glibc is older than the wheel's libraries need."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").partition(" ")
    numbers = [int(part) for part in version.split(".") if part.isdigit()]
    if GLIBC is not None and (name != "glibc" or numbers < [int(part) for part in GLIBC.split(".")]):
        raise OSError(f"onnxruntime_ep_ctxgen needs glibc {GLIBC} or later, this system has {name} {version}".rstrip())


def get_library_path() -> str:
    """The plugin's library: CTXGEN_ONNXRUNTIME_PLUGIN if it is set, else beside or above this package, as ctxgen is installed.

    Raises FileNotFoundError naming every place that was tried, OSError where glibc is too old for a wheel's libraries.
    """
    _check_system()
    given = os.environ.get("CTXGEN_ONNXRUNTIME_PLUGIN")
    here = Path(__file__).resolve().parent
    places = [Path(given)] if given else [folder / _NAME for folder in [here, *here.parents[:3]]]
    for place in places:
        if place.is_file():
            return str(place)
    raise FileNotFoundError(f"{_NAME} is in none of {', '.join(map(str, places))}")


def get_ep_name() -> str:
    """The name of the execution provider."""
    return get_ep_names()[0]


def get_ep_names() -> list[str]:
    """The names of all execution providers in the library."""
    return ["CtxgenDnnlExecutionProvider"]
