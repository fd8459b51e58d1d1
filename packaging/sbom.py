"""A CycloneDX 1.6 document from what dpkg knows: each package of ours, and the Debian packages that it holds, contains or wants.

Debian has no tool that writes one from the packages of a build (trixie and forky, November 2026).
"""

import hashlib
import json
import re
import subprocess
import uuid
from urllib.parse import quote

from shared_objects import debian_package

# Compiled or linked into our own files, so no shared library names them: the -dev packages that they come from.
COMPILED_IN = ("libzstd-dev", "libcli11-dev", "libhwy-dev", "libxxhash-dev", "libspdlog-dev", "nlohmann-json3-dev", "libonnxruntime-dev")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def debian_component(name, version, suite, role):
    url = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch=amd64&distro={suite}"
    return {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url, "properties": [{"name": "ctxgen:role", "value": role}]}


def installed_version(name):
    finished = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", name], capture_output=True, text=True, check=False)
    state, _, version = finished.stdout.partition(" ")
    return version if state == "installed" else None


def names_of(dependencies):
    """Packages that a Depends field names; of alternatives the first."""
    return [re.match(r"[a-z0-9.+-]+", part.strip())[0] for part in dependencies.split(",") if part.strip()]


def document(version, suite, files, bundled, depends):
    """`files`: what is published; `bundled`: {file: {path inside: file of this system}}; `depends`: {file: its Depends field}."""
    components, dependencies = {}, {}

    def add(component):
        components.setdefault(component["bom-ref"], component)
        return component["bom-ref"]

    compiled = []
    for name in COMPILED_IN:
        if found := installed_version(name):
            compiled.append(add(debian_component(name, found, suite, "compiled in")))
    own_packages = {file.name.split("_")[0] for file in files}
    for file in files:
        own = f"pkg:generic/{file.name}@{version}"
        add({"type": "file", "bom-ref": own, "name": file.name, "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}],
             "hashes": [{"alg": "SHA-256", "content": sha256(file)}]})  # fmt: skip
        wants = set(compiled)
        for source in bundled.get(file, {}).values():
            package = debian_package(str(source))
            wants.add(add(debian_component(package[0], package[1], suite, "bundled")))
        for name in names_of(depends.get(file, "")):
            if name not in own_packages and (found := installed_version(name)):
                wants.add(add(debian_component(name, found, suite, "built against")))
        dependencies[own] = sorted(wants)
    main = {"type": "application", "bom-ref": f"pkg:generic/ctxgen@{version}", "name": "ctxgen", "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}]}
    body = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": main},
        "components": [components[key] for key in sorted(components)],
        "dependencies": [{"ref": main["bom-ref"], "dependsOn": sorted(dependencies)}] + [{"ref": key, "dependsOn": dependencies[key]} for key in sorted(dependencies)],
    }  # fmt: skip
    # The same packages have the same number.
    body["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))}"
    return json.dumps(body, indent=1, sort_keys=True) + "\n"
