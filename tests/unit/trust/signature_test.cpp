#include "ctxgen/trust/signature.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/blob.h"

#include "code_of.h"
#include "signature_bundle.h"

namespace ctxgen {
namespace {

using test::code_of;

SignedSet two_files() {
  return {.name = "models",
          .files = {{"a.bin", sha256_of(as_bytes("a"))}, {"sub/b.onnx", sha256_of(as_bytes("b"))}},
          .ignored = {"model.sig"}};
}

std::string changed(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

auto code_of_statement(const std::string& text) { return code_of(read_statement(as_bytes(text))); }

// DSSE 1.0.0, the protocol's own form with this payload type.
TEST(SignatureBundle, SignsTypeAndPayloadWithTheirLengths) {
  const SignatureBytes bytes = signed_bytes(as_bytes("hello"));
  EXPECT_EQ(as_text(bytes), "DSSEv1 28 application/vnd.in-toto+json 5 hello");
}

TEST(SignatureBundle, AStatementIsReadAsItWasWritten) {
  const auto read = read_statement(as_bytes(statement_text(two_files())));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->name, "models");
  ASSERT_EQ(read->files.size(), 2U);
  EXPECT_EQ(read->files[1].name, "sub/b.onnx");
  EXPECT_EQ(read->files[1].digest, sha256_of(as_bytes("b")));
  EXPECT_EQ(read->ignored, std::vector<std::string>{"model.sig"});
}

TEST(SignatureBundle, RefusesOtherStatements) {
  const std::string text = statement_text(two_files());
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"Statement/v1", "Statement/v0.1"},
           {"signature/v1.0", "Digests/v0.1"},
           {"\"a.bin\"", "\"/a.bin\""},
           {"\"a.bin\"", "\"../a.bin\""},
           {"\"a.bin\"", "\"x//a.bin\""},
           {"\"a.bin\"", "\"x/./a.bin\""},
           {"\"a.bin\"", "\"\""},
           {"\"a.bin\"", "\"x\\\\a.bin\""},
           {"\"a.bin\"", "\"a\\u0000b\""},
           {"\"a.bin\"", "\"sub/b.onnx\""},
           {"\"a.bin\"", "1"},
           {sha256_of(as_bytes("a")).hex(), sha256_of(as_bytes("c")).hex()},
           {sha256_of(as_bytes("a")).hex(), "00"},
           {"\"algorithm\": \"sha256\"", "\"algorithm\": \"blake3\""},
           {"\"resources\"", "\"others\""},
           {"\"subject\"", "\"subjects\""}})
    EXPECT_EQ(code_of_statement(changed(text, from, to)), ErrorCode::kNotSatisfied)
        << from << " -> " << to;
  EXPECT_EQ(code_of_statement(changed(text, "\"files\"", "\"shards\"")), ErrorCode::kUnsupported);
}

SignatureBundle some_bundle() {
  SignatureBundle bundle;
  bundle.key_hint = "abc";
  bundle.payload = {std::byte{1}, std::byte{2}};
  bundle.signature = {std::byte{3}};
  return bundle;
}

TEST(SignatureBundle, IsReadAsItWasWritten) {
  SignatureBundle bundle = some_bundle();
  for (int certificates = 0; certificates < 3; ++certificates) {
    const auto read = read_bundle(as_bytes(bundle_text(bundle)));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->certificates, bundle.certificates);
    EXPECT_EQ(read->key_hint, certificates == 0 ? "abc" : "");
    EXPECT_EQ(read->payload, bundle.payload);
    EXPECT_EQ(read->signature, bundle.signature);
    bundle.certificates.push_back({std::byte{4}});
  }
}

TEST(SignatureBundle, RefusesEveryTruncationAndOtherForms) {
  const std::string text = bundle_text(some_bundle());
  for (std::size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_EQ(code_of(read_bundle(as_bytes(text).first(size))), ErrorCode::kNotSatisfied) << size;
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"bundle.v0.3+json", "bundle.v0.2+json"},
           {"publicKey", "certificate"},
           {"in-toto+json", "in-toto+xml"},
           {"AQI=", "AQI"},
           {"\"signatures\": [", "\"signatures\": [{\"sig\": \"Aw==\"},"},
           {"dsseEnvelope", "messageSignature"}})
    EXPECT_EQ(code_of(read_bundle(as_bytes(changed(text, from, to)))), ErrorCode::kNotSatisfied)
        << from << " -> " << to;
}

TEST(Signature, RefusesWhatIsNeitherAKeyNorACertificate) {
  const std::string text = bundle_text(some_bundle());
  for (const char* trusted :
       {"", "text", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"})
    EXPECT_EQ(code_of(verify_signature(as_bytes(text), trusted)), ErrorCode::kInvalidArgument)
        << trusted;
}

TEST(Signature, SignsWithAKeyOnly) {
  for (const char* key :
       {"", "text", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"})
    EXPECT_EQ(code_of(sign_set(two_files(), {key, ""})), ErrorCode::kInvalidArgument) << key;
  EXPECT_EQ(code_of(sign_set({}, {"", ""})), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ctxgen
