"""What the tests find in the environment, unless the caller has set it: by default the build of preset dev."""

import os
import pathlib

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.setdefault("CTXGEN_BUILD", str(SOURCE / "build" / os.environ.get("CTXGEN_PRESET", "dev"))))
os.environ.setdefault("CTXGEN_PRESET", BUILD.name)
os.environ.setdefault("CTXGEN_BIN", str(BUILD / "bin" / "ctxgen"))
os.environ.setdefault("CTXGEN_SOURCE", str(SOURCE))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # a spinning team would take the cores from what runs next to it
