// Signatures. Input: \0 and a bundle, \1 and the statement that one holds, \2 and a bundle to be verified by a fixed key.
#include "ctxgen/trust/signature.h"

#include <span>

#include "fuzz_input.h"
#include "signature_bundle.h"

using namespace ctxgen;

namespace {

// P-256; its private half was thrown away.
constexpr std::string_view kKey =
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJZZNsRRRT7hIsOrCY5xeWRXwu0RI\n"
    "ew2wOykJuSXLu9kDtdNFXjgVOghV7cSmiA1xCNgIE3+qDLoN+8cWpPG0GA==\n"
    "-----END PUBLIC KEY-----\n";

void try_bundle(std::span<const std::byte> bytes) {
  const auto bundle = read_bundle(bytes);
  if (!bundle) return;
  const std::string text = bundle_text(*bundle);
  const auto again = read_bundle(std::as_bytes(std::span(text)));
  fuzz::expect(again.has_value(), "what was written is not read");
  fuzz::expect(again->payload == bundle->payload && again->signature == bundle->signature &&
                   again->certificates == bundle->certificates,
               "another bundle when written and read");
}

void try_statement(std::span<const std::byte> bytes) {
  const auto set = read_statement(bytes);
  if (!set) return;
  for (const SignedFile& file : set->files)
    fuzz::expect(!file.name.starts_with('/') && file.name != ".." &&
                     !file.name.starts_with("../") && file.name.find("/../") == std::string::npos &&
                     !file.name.ends_with("/.."),
                 "a name that leads out of the folder");
  const std::string text = statement_text(*set);
  const auto again = read_statement(std::as_bytes(std::span(text)));
  fuzz::expect(again.has_value() && again->files.size() == set->files.size(),
               "what was written is not read");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] == 0) try_bundle(bytes);
  if (data[0] == 1) try_statement(bytes);
  if (data[0] == 2)
    fuzz::expect(!verify_signature(bytes, kKey), "verified, with a key that signs nothing");
  return 0;
}
