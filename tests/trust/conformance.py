#!/usr/bin/env python3
"""The published conformance cases of OpenSSF Model Signing, through `ctxgen sign` and `ctxgen verify-signature`.

    ./dev python3 tests/trust/conformance.py SUITE

SUITE is a checkout of model-signing-conformance (its folder `test` has the cases). Cases by keys and certificates are run and listed with their
outcome; keyless ones need a network and are counted. Exit status: 0 if every case that was run has the expected outcome but for those of KNOWN.
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

KNOWN = {"historical-v0.2.0-certificate": "the form of 2024, whose signed bytes are a Python repr(), is refused"}
CTXGEN = os.environ.get("CTXGEN_BIN") or str(pathlib.Path(__file__).resolve().parents[2] / "build" / "dev" / "bin" / "ctxgen")


def ctxgen(*arguments):
    return subprocess.run([CTXGEN, *map(str, arguments)], capture_output=True, text=True, check=False)


def change(folder, changes):
    for name in changes.get("delete", []):
        (folder / name).unlink()
    for name, text in {**changes.get("inject", {}), **changes.get("tamper", {})}.items():
        (folder / name).write_text(text)
    for name, target in changes.get("symlinks", {}).items():
        (folder / name).symlink_to(target)


class Case:
    def __init__(self, path, assets, folder):
        self.path, self.assets, self.folder = path, assets, folder
        self.config = json.loads((path / "config.json").read_text())
        source = (path if self.config.get("model_relative_to") == "test_dir" else assets) / self.config["model"]
        self.model = folder / (source.name if source.is_file() else "model")
        if source.is_file():
            shutil.copy(source, self.model)
        else:
            shutil.copytree(source, self.model)
        change(self.model if self.model.is_dir() else folder, self.config.get("model_modifications", {}))
        self.signature = (self.model if self.config.get("sig_inside_model") else folder) / "bundle.sig"

    def ignored(self):
        paths = self.config["verify"].get("ignore_paths", [])
        return [word for path in paths for word in ("--ignore", self.model / path)]

    def sign(self):
        sign = self.config["sign"]
        arguments = ["--key", self.assets / sign["private_key"]]
        if self.config["method"] == "certificate":
            chain = self.folder / "chain.pem"
            certificates = [sign["signing_cert"], *(one for one in sign["cert_chain"] if one != sign["signing_cert"])]
            chain.write_text("".join((self.assets / one).read_text() for one in certificates))
            arguments += ["--certificates", chain]
        return ctxgen("sign", self.model, "-o", self.signature, *arguments, *self.ignored(), "-q")

    def verify(self):
        verify = self.config["verify"]
        trusted = self.folder / "trusted.pem"
        files = [self.assets / one for one in verify.get("cert_chain", [verify.get("public_key")])]
        if not all(file.exists() for file in files):  # sigstore-verify-as-key names a key that the suite lacks
            files = [self.assets / "keys" / "certificate" / "signing-key-pub.pem"]
        trusted.write_text("".join(file.read_text() for file in files))
        arguments = ["--ignore-unsigned"] if verify.get("ignore_unsigned_files") else []
        return ctxgen("verify-signature", self.model, "--signature", self.signature, "--key", trusted, *arguments, *self.ignored(), "-q")

    def signed_files(self):
        payload = base64.b64decode(json.loads(self.signature.read_text())["dsseEnvelope"]["payload"])
        return [one["name"] for one in json.loads(payload)["predicate"]["resources"]]

    def run(self):
        """(whether it passed, what was said)"""
        done = self.sign() if "sign" in self.config else shutil.copy(self.path / "bundle.sig", self.signature) and None
        if done is None or done.returncode == 0:
            done = self.verify()
        said = done.stderr.strip().removeprefix("ctxgen: error: ")
        if self.config.get("expect") == "fail":
            return done.returncode in (1, 2, 4), said
        if done.returncode == 0 and self.config.get("expected_signed_files") not in (None, self.signed_files()):
            return False, f"files {self.signed_files()}"
        return done.returncode == 0, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=pathlib.Path)
    cases = parser.parse_args().suite / "test"
    results, keyless = [], 0
    for path in sorted(file.parent for file in (cases / "test-cases").glob("**/config.json")):
        if json.loads((path / "config.json").read_text())["method"] == "sigstore":
            keyless += 1
            continue
        with tempfile.TemporaryDirectory() as folder:
            passed, said = Case(path, cases / "assets", pathlib.Path(folder).resolve()).run()
        said = said.replace(folder + "/", "")
        results.append((path.name, passed))
        print(f"{'passed' if passed else 'KNOWN' if path.name in KNOWN else 'FAILED'}  {path.parent.name}/{path.name}  {said[:150]}".rstrip())
    failed = [name for name, passed in results if not passed]
    print(f"{len(results) - len(failed)} of {len(results)} passed, {keyless} keyless ones not run")
    for name in sorted(set(failed) & set(KNOWN)):
        print(f"known: {name}: {KNOWN[name]}")
    return 1 if set(failed) - set(KNOWN) or not results else 0


if __name__ == "__main__":
    sys.exit(main())
