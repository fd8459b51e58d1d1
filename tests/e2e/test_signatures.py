"""Signatures: what `ctxgen sign` vouches for, what `verify-signature` and loading with --require-signed refuse."""

import base64
import json
import shutil
import subprocess

import numpy as np
import pytest
from cli_support import conv_model, ctxgen, done, into, json_of, refused, save
from test_external_initializers import lookup_model




def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_key(folder, name, curve="prime256v1"):
    openssl("ecparam", "-name", curve, "-genkey", "-noout", "-out", folder / f"{name}.pem")
    openssl("pkey", "-in", folder / f"{name}.pem", "-pubout", "-out", folder / f"{name}-public.pem")
    return folder / f"{name}.pem", folder / f"{name}-public.pem"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    make_key(folder, "signer")
    make_key(folder, "other")
    make_key(folder, "issuer")
    openssl("req", "-x509", "-new", "-key", folder / "issuer.pem", "-subj", "/CN=issuer", "-days", "2", "-out", folder / "issuer-certificate.pem")
    return folder


def certificate(keys, name, *extensions, time=("-days", 1)):
    """Of the signer's key, by the issuer."""
    openssl("req", "-new", "-key", keys / "signer.pem", "-subj", "/CN=signer", "-out", keys / f"{name}.csr")
    (keys / f"{name}.ext").write_text("".join(f"{line}\n" for line in extensions))
    openssl("x509", "-req", "-in", keys / f"{name}.csr", "-CA", keys / "issuer-certificate.pem", "-CAkey", keys / "issuer.pem", *time,
            "-extfile", keys / f"{name}.ext", "-out", keys / f"{name}.pem")
    return keys / f"{name}.pem"


@pytest.fixture
def out(tmp_path):
    """A context model with its binary and external initializers in files of their own."""
    save(conv_model(), tmp_path / "net.onnx")
    done("compile", tmp_path / "net.onnx", "-o", into(tmp_path / "ctx"))
    return tmp_path / "ctx"


def statement(signature):
    return json.loads(base64.b64decode(json.loads(signature.read_text())["dsseEnvelope"]["payload"]))


@pytest.mark.parametrize("curve", ["prime256v1", "secp384r1", "secp521r1"])
def test_a_folder_is_signed_and_verified(out, tmp_path, curve):
    key, public = make_key(tmp_path, "key", curve)
    report = json_of("sign", out, "--key", key)
    names = [file["name"] for file in report["files"]]
    assert names == sorted(names) == ["net_ctx.onnx", "net_dnnl.bin"] and report["signature"] == str(out / "model.sig")
    assert "2 files" in done("verify-signature", out, "--key", public).stdout
    assert json_of("verify-signature", out, "--key", public)["files"] == names
    assert [one["name"] for one in statement(out / "model.sig")["predicate"]["resources"]] == names
    done("run", out / "net_ctx.onnx", "--require-signed", public)


def test_the_signature_is_what_openssl_verifies(out, keys, tmp_path):
    """The one independent implementation here: of the message as DSSE describes it."""
    done("sign", out, "--key", keys / "signer.pem")
    envelope = json.loads((out / "model.sig").read_text())["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    (tmp_path / "message").write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    openssl("dgst", "-sha256", "-verify", keys / "signer-public.pem", "-signature", tmp_path / "sig", tmp_path / "message")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["net_ctx.onnx", "net_dnnl.bin"])
def test_a_changed_file_is_refused(out, keys, name):
    done("sign", out, "--key", keys / "signer.pem")
    flip(out / name)
    refused(4, "NOT_SATISFIED", "verify-signature", out, "--key", keys / "signer-public.pem", names=[name])
    finished = ctxgen("run", out / "net_ctx.onnx", "--require-signed", keys / "signer-public.pem")
    assert finished.returncode in (2, 4), finished.stderr  # a damaged model may not be read in the first place


def test_another_key_is_refused(out, keys):
    done("sign", out, "--key", keys / "signer.pem")
    for verb in (["verify-signature", out, "--key"], ["run", out / "net_ctx.onnx", "--require-signed"]):
        refused(4, "NOT_SATISFIED", *verb, keys / "other-public.pem", names=["another key"])


def test_a_signature_for_another_set_is_refused(out, keys, tmp_path):
    """One of an older compile, with its own files still in order."""
    save(conv_model(seed=1), tmp_path / "net.onnx")
    done("compile", tmp_path / "net.onnx", "-o", into(tmp_path / "older"))
    done("sign", tmp_path / "older", "--key", keys / "signer.pem")
    shutil.copy(tmp_path / "older" / "model.sig", out)
    refused(4, "NOT_SATISFIED", "run", out / "net_ctx.onnx", "--require-signed", keys / "signer-public.pem", names=["net_ctx.onnx"])
    shutil.copy(tmp_path / "older" / "net_ctx.onnx", out)  # the binary alone is the wrong one
    refused(4, "NOT_SATISFIED", "run", out / "net_ctx.onnx", "--require-signed", keys / "signer-public.pem", names=["net_dnnl.bin"])


def test_missing_and_further_files(out, keys):
    done("sign", out, "--key", keys / "signer.pem")
    (out / "further").write_text("not signed")
    key = ["--key", keys / "signer-public.pem"]
    refused(4, "NOT_SATISFIED", "verify-signature", out, *key, names=["further"])
    done("verify-signature", out, *key, "--ignore-unsigned")
    done("verify-signature", out, *key, "--ignore", out / "further")
    done("run", out / "net_ctx.onnx", "--require-signed", keys / "signer-public.pem")
    (out / "net_dnnl.bin").unlink()
    refused(4, "NOT_SATISFIED", "verify-signature", out, *key, "--ignore-unsigned", names=["net_dnnl.bin"])


def test_what_a_model_names_has_to_be_signed_too(out, keys):
    done("sign", out, "--key", keys / "signer.pem", "--ignore", out / "net_dnnl.bin")
    refused(4, "NOT_SATISFIED", "run", out / "net_ctx.onnx", "--require-signed", keys / "signer-public.pem", names=["net_dnnl.bin"])


def test_external_initializers_have_to_be_signed_too(keys, tmp_path):
    save(lookup_model(), tmp_path / "net.onnx")
    done("compile", tmp_path / "net.onnx", "-o", into(tmp_path / "ctx"), "--external-initializers", "net.data")
    out = tmp_path / "ctx"
    done("sign", out, "--key", keys / "signer.pem")
    np.save(tmp_path / "ids.npy", np.array([[0], [3]]))
    ids = ["--input", f"ids={tmp_path / 'ids.npy'}"]
    done("run", out / "net_ctx.onnx", *ids, "--require-signed", keys / "signer-public.pem")
    flip(out / "net.data")
    refused(4, "NOT_SATISFIED", "run", out / "net_ctx.onnx", *ids, "--require-signed", keys / "signer-public.pem", names=["net.data"])


def test_a_model_below_the_signed_folder(out, keys):
    done("sign", out.parent, "--key", keys / "signer.pem")
    arguments = ["run", out / "net_ctx.onnx", "--require-signed", keys / "signer-public.pem"]
    refused(3, "IO_ERROR", *arguments, names=["model.sig"])
    done(*arguments, "--signature", out.parent / "model.sig")
    shutil.move(out, out.parent / "elsewhere")
    refused(4, "NOT_SATISFIED", "run", out.parent / "elsewhere" / "net_ctx.onnx", *arguments[2:], "--signature", out.parent / "model.sig", names=["net_ctx.onnx"])


def test_certificates(out, keys):
    signer = certificate(keys, "code", "keyUsage=digitalSignature", "extendedKeyUsage=codeSigning")
    done("sign", out, "--key", keys / "signer.pem", "--certificates", signer)
    for trusted in (keys / "issuer-certificate.pem", signer):
        done("verify-signature", out, "--key", trusted)
        done("run", out / "net_ctx.onnx", "--require-signed", trusted)
    refused(4, "NOT_SATISFIED", "verify-signature", out, "--key", keys / "signer-public.pem", names=["certificate"])
    done("sign", out, "--key", keys / "signer.pem")
    refused(4, "NOT_SATISFIED", "verify-signature", out, "--key", keys / "issuer-certificate.pem", names=["key alone"])


def test_certificates_that_are_not_for_this(out, keys):
    for name, *extensions in (("server", "keyUsage=digitalSignature", "extendedKeyUsage=serverAuth"), ("encipher", "keyUsage=keyEncipherment"), ("plain", "basicConstraints=CA:FALSE")):
        done("sign", out, "--key", keys / "signer.pem", "--certificates", certificate(keys, name, *extensions))
        refused(4, "NOT_SATISFIED", "verify-signature", out, "--key", keys / "issuer-certificate.pem", names=["not for signing"])
    done("sign", out, "--key", keys / "signer.pem", "--certificates", certificate(keys, "over", "keyUsage=digitalSignature", time=("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")))
    refused(4, "NOT_SATISFIED", "verify-signature", out, "--key", keys / "issuer-certificate.pem", names=["expired"])
    refused(1, "INVALID_ARGUMENT", "sign", out, "--key", keys / "other.pem", "--certificates", keys / "over.pem", names=["private key"])


def test_arguments(out, keys, tmp_path):
    rsa = tmp_path / "rsa.pem"
    openssl("genrsa", "-out", rsa, "2048")
    refused(1, "INVALID_ARGUMENT", "sign", out, "--key", rsa, names=["P-256"])
    refused(1, "INVALID_ARGUMENT", "sign", out, "--key", keys / "signer-public.pem", names=["private key"])
    refused(1, "INVALID_ARGUMENT", "sign", out / "net_ctx.onnx", "--key", keys / "signer.pem", names=["not a folder"])
    refused(3, "IO_ERROR", "sign", tmp_path / "nothing", "--key", keys / "signer.pem", "-o", tmp_path / "new.sig", names=["nothing"])
    for output in (out / "net_dnnl.bin", keys / "other.pem"):
        before = output.read_bytes()
        refused(1, "INVALID_ARGUMENT", "sign", out, "--key", keys / "signer.pem", "-o", output, names=["not a signature"])
        assert output.read_bytes() == before
    (tmp_path / "empty").mkdir()
    refused(1, "INVALID_ARGUMENT", "sign", tmp_path / "empty", "--key", keys / "signer.pem", names=["no file"])
    (out / "link").symlink_to("net_dnnl.bin")
    refused(1, "INVALID_ARGUMENT", "sign", out, "--key", keys / "signer.pem", names=["link"])
    refused(1, "INVALID_ARGUMENT", "run", tmp_path / "net.onnx", "--require-signed", keys / "signer-public.pem", names=["plain model"])
    assert not (out / "model.sig").exists()


def test_no_password_is_asked_for(out, keys, tmp_path):
    sealed = tmp_path / "sealed.pem"
    openssl("ec", "-in", keys / "signer.pem", "-aes256", "-passout", "pass:secret", "-out", sealed)
    sealed_pkcs8 = tmp_path / "sealed-pkcs8.pem"
    openssl("pkcs8", "-topk8", "-in", keys / "signer.pem", "-passout", "pass:secret", "-out", sealed_pkcs8)
    done("sign", out, "--key", keys / "signer.pem")
    for key in (sealed, sealed_pkcs8):
        for command in (("sign", out), ("verify-signature", out)):
            finished = ctxgen(*command, "--key", key)
            assert finished.returncode == 1 and "INVALID_ARGUMENT" in finished.stderr, finished.stderr
            assert "pass phrase" not in finished.stderr


def test_no_signature_that_cannot_be_verified(out, keys, tmp_path):
    chain = tmp_path / "chain.pem"
    chain.write_text(certificate(keys, "many", "keyUsage=digitalSignature").read_text() + 16 * (keys / "issuer-certificate.pem").read_text())
    refused(2, "RESOURCE_LIMIT", "sign", out, "--key", keys / "signer.pem", "--certificates", chain, names=["1 to 16"])
    assert not (out / "model.sig").exists()


def test_one_file(out, keys, tmp_path):
    signature = tmp_path / "one.sig"
    done("sign", out / "net_dnnl.bin", "--key", keys / "signer.pem", "-o", signature)
    done("verify-signature", out / "net_dnnl.bin", "--key", keys / "signer-public.pem", "--signature", signature)
    refused(4, "NOT_SATISFIED", "verify-signature", out / "net_ctx.onnx", "--key", keys / "signer-public.pem", "--signature", signature)


def test_signing_again_replaces_the_signature(out, keys):
    done("sign", out, "--key", keys / "signer.pem")
    first = statement(out / "model.sig")
    done("sign", out, "--key", keys / "other.pem")
    assert statement(out / "model.sig") == first
    done("verify-signature", out, "--key", keys / "other-public.pem")

