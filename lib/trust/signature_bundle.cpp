#include "signature_bundle.h"

#include <algorithm>
#include <format>
#include <set>
#include <utility>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/json.h"
#include "ctxgen/base/json_value.h"

#include "base64.h"

namespace ctxgen {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
constexpr std::size_t kMostCertificates = 16;
constexpr JsonLimits kLimits{.depth = 16, .values = 1U << 22U};

constexpr std::string_view kBundleType = "application/vnd.dev.sigstore.bundle.v0.3+json";
constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";
constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
constexpr std::string_view kPredicateType = "https://model_signing/signature/v1.0";

auto not_a_signature(std::string_view why) {
  return fail(ErrorCode::kNotSatisfied, "not a signature that ctxgen knows: {}", why);
}

Result<JsonValue> parse(std::span<const std::byte> text) {
  if (text.size() > kMostBytes)
    return fail(ErrorCode::kResourceLimit, "a signature of {} bytes, expected {} at most",
                text.size(), kMostBytes);
  auto document = parse_json(as_text(text), kLimits);
  if (document || document.error().code == ErrorCode::kResourceLimit) return document;
  return not_a_signature(document.error().message);
}

/// A member of an object, or nullptr.
const JsonValue* member(const JsonValue* value, std::string_view name) {
  const auto* object = value == nullptr ? nullptr : value->as<JsonValue::Object>();
  if (object == nullptr) return nullptr;
  const auto found = std::ranges::find(*object, name, &JsonMember::name);
  return found == object->end() ? nullptr : &found->value;
}

Result<std::string> text_of(const JsonValue* value, std::string_view name) {
  const auto* text = value == nullptr ? nullptr : value->as<std::string>();
  if (text == nullptr) return not_a_signature(std::format("{} must be a text", name));
  return *text;
}

Status expect_text(const JsonValue* value, std::string_view name, std::string_view expected) {
  const std::string found = CTXGEN_TRY(text_of(value, name));
  if (found == expected) return {};
  return not_a_signature(std::format("{} is \"{}\", expected \"{}\"", name, found, expected));
}

Result<SignatureBytes> bytes_of(const JsonValue* value, std::string_view name) {
  auto bytes = from_base64(CTXGEN_TRY(text_of(value, name)));
  if (!bytes) return not_a_signature(std::format("{} must be base64", name));
  return *std::move(bytes);
}

/// An array of 1 to `most` values.
Result<const JsonValue::Array*> array_of(const JsonValue* value, std::string_view name,
                                         std::size_t most) {
  const auto* array = value == nullptr ? nullptr : value->as<JsonValue::Array>();
  if (array == nullptr || array->empty() || array->size() > most)
    return not_a_signature(std::format("{} must be an array of 1 to {}", name, most));
  return array;
}

Status read_material(const JsonValue* material, SignatureBundle& bundle) {
  if (const JsonValue* chain = member(material, "x509CertificateChain"); chain != nullptr) {
    const auto* certificates =
        CTXGEN_TRY(array_of(member(chain, "certificates"), "certificates", kMostCertificates));
    for (const JsonValue& one : *certificates)
      bundle.certificates.push_back(CTXGEN_TRY(bytes_of(member(&one, "rawBytes"), "rawBytes")));
    return {};
  }
  const JsonValue* key = member(material, "publicKey");
  if (key == nullptr)
    return not_a_signature(
        "verificationMaterial has neither a publicKey nor an "
        "x509CertificateChain (keyless signatures need a network)");
  const JsonValue* hint = member(key, "hint");  // signers before 1.1 gave none
  if (hint != nullptr && hint->as<std::nullptr_t>() == nullptr)
    bundle.key_hint = CTXGEN_TRY(text_of(hint, "hint"));
  return {};
}

/// Names become paths below a folder.
bool stays_inside(std::string_view name) {
  if (name.empty() || name.contains('\0') || name.contains('\\')) return false;
  if (name == ".") return true;
  while (true) {
    const std::string_view part = name.substr(0, name.find('/'));
    if (part.empty() || part == "." || part == "..") return false;
    if (part.size() == name.size()) return true;
    name.remove_prefix(part.size() + 1);
  }
}

Status check_serialization(const JsonValue* serialization) {
  for (const auto& [name, expected] : {std::pair("method", "files"), {"hash_type", "sha256"}})
    if (const std::string found = CTXGEN_TRY(text_of(member(serialization, name), name));
        found != expected)
      return fail(ErrorCode::kUnsupported, "a signature over {} \"{}\", expected \"{}\"", name,
                  found, expected);
  return {};
}

Result<SignedFile> read_resource(const JsonValue& resource) {
  SignedFile file;
  file.name = CTXGEN_TRY(text_of(member(&resource, "name"), "name"));
  if (!stays_inside(file.name))
    return not_a_signature(std::format("name \"{}\" is not a relative path", file.name));
  CTXGEN_CHECK(expect_text(member(&resource, "algorithm"), "algorithm", "sha256"));
  const auto digest =
      Sha256Digest::parse(CTXGEN_TRY(text_of(member(&resource, "digest"), "digest")));
  if (!digest) return not_a_signature("digest must be 64 lower-case hex digits");
  file.digest = *digest;
  return file;
}

Sha256Digest digest_of(const SignedSet& set) {
  Sha256 sha;
  for (const SignedFile& file : set.files) sha.add(std::span(file.digest.bytes));
  return sha.finish();
}

}  // namespace

Result<SignatureBundle> read_bundle(std::span<const std::byte> text) {
  const JsonValue document = CTXGEN_TRY(parse(text));
  SignatureBundle bundle;
  CTXGEN_CHECK(expect_text(member(&document, "mediaType"), "mediaType", kBundleType));
  CTXGEN_CHECK(read_material(member(&document, "verificationMaterial"), bundle));
  const JsonValue* envelope = member(&document, "dsseEnvelope");
  CTXGEN_CHECK(expect_text(member(envelope, "payloadType"), "payloadType", kPayloadType));
  bundle.payload = CTXGEN_TRY(bytes_of(member(envelope, "payload"), "payload"));
  const auto* signatures =
      CTXGEN_TRY(array_of(member(envelope, "signatures"), "signatures", /*most=*/1));
  bundle.signature = CTXGEN_TRY(bytes_of(member(&signatures->front(), "sig"), "sig"));
  return bundle;
}

std::string bundle_text(const SignatureBundle& bundle) {
  JsonWriter json;
  json.begin_object().field("mediaType", kBundleType).key("verificationMaterial").begin_object();
  if (bundle.certificates.empty()) {
    json.key("publicKey").begin_object().field("hint", bundle.key_hint).end_object();
  } else {
    json.key("x509CertificateChain").begin_object().key("certificates").begin_array();
    for (const SignatureBytes& certificate : bundle.certificates)
      json.begin_object().field("rawBytes", base64_of(certificate)).end_object();
    json.end_array().end_object();
  }
  json.key("tlogEntries").begin_array().end_array().end_object();
  json.key("dsseEnvelope")
      .begin_object()
      .field("payload", base64_of(bundle.payload))
      .field("payloadType", kPayloadType)
      .key("signatures")
      .begin_array()
      .begin_object()
      .field("sig", base64_of(bundle.signature))
      .field("keyid", "")
      .end_object()
      .end_array()
      .end_object()
      .end_object();
  return json.finish();
}

Result<SignedSet> read_statement(std::span<const std::byte> payload) {
  const JsonValue document = CTXGEN_TRY(parse(payload));
  CTXGEN_CHECK(expect_text(member(&document, "_type"), "_type", kStatementType));
  CTXGEN_CHECK(expect_text(member(&document, "predicateType"), "predicateType", kPredicateType));
  const auto* subjects = CTXGEN_TRY(array_of(member(&document, "subject"), "subject", /*most=*/1));
  const JsonValue* predicate = member(&document, "predicate");
  const JsonValue* serialization = member(predicate, "serialization");
  CTXGEN_CHECK(check_serialization(serialization));
  SignedSet set;
  set.name = CTXGEN_TRY(text_of(member(&subjects->front(), "name"), "name"));
  const auto* resources =
      CTXGEN_TRY(array_of(member(predicate, "resources"), "resources", kLimits.values));
  std::set<std::string_view> names;
  set.files.reserve(resources->size());
  for (const JsonValue& resource : *resources) {
    set.files.push_back(CTXGEN_TRY(read_resource(resource)));
    if (!names.insert(set.files.back().name).second)
      return not_a_signature(std::format("\"{}\" is listed twice", set.files.back().name));
  }
  if (const JsonValue* ignored = member(serialization, "ignore_paths"); ignored != nullptr)
    if (const auto* paths = ignored->as<JsonValue::Array>(); paths != nullptr)
      for (const JsonValue& path : *paths)
        set.ignored.push_back(CTXGEN_TRY(text_of(&path, "ignore_paths")));
  const std::string digest = CTXGEN_TRY(
      text_of(member(member(&subjects->front(), "digest"), "sha256"), "digest of the subject"));
  if (digest != digest_of(set).hex())
    return not_a_signature("the digest of the subject is not that of its files");
  return set;
}

std::string statement_text(const SignedSet& set) {
  JsonWriter json;
  json.begin_object().field("_type", kStatementType).key("subject").begin_array();
  json.begin_object().field("name", set.name).key("digest").begin_object();
  json.field("sha256", digest_of(set).hex()).end_object().end_object().end_array();
  json.field("predicateType", kPredicateType).key("predicate").begin_object();
  json.key("serialization")
      .begin_object()
      .field("method", "files")
      .field("hash_type", "sha256")
      .field("allow_symlinks", false)
      .list("ignore_paths", set.ignored)
      .end_object();
  json.key("resources").begin_array();
  for (const SignedFile& file : set.files)
    json.begin_object()
        .field("name", file.name)
        .field("algorithm", "sha256")
        .field("digest", file.digest.hex())
        .end_object();
  json.end_array().end_object().end_object();
  return json.finish();
}

SignatureBytes signed_bytes(std::span<const std::byte> payload) {
  const std::string head =
      std::format("DSSEv1 {} {} {} ", kPayloadType.size(), kPayloadType, payload.size());
  SignatureBytes bytes(as_bytes(head).begin(), as_bytes(head).end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

}  // namespace ctxgen
