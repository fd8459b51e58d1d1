#include "ctxgen/trust/sha256.h"

#include <string>

#include <gtest/gtest.h>

#include "ctxgen/base/blob.h"

namespace ctxgen {
namespace {

// FIPS 180-2, appendix B.
TEST(Sha256, HasThePublishedDigests) {
  EXPECT_EQ(sha256_of(as_bytes("abc")).hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of({}).hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of(as_bytes(std::string(1000000, 'a'))).hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, TakesPiecesAndGoesOnAfterADigest) {
  Sha256 sha;
  sha.add(as_bytes("a"));
  EXPECT_EQ(sha.finish(), sha256_of(as_bytes("a")));
  sha.add(as_bytes("bc"));
  EXPECT_EQ(sha.finish(), sha256_of(as_bytes("abc")));
}

TEST(Sha256, TextsHaveTheirLengths) {
  Sha256 one, two;
  one.add(std::string_view("ab"));
  one.add(std::string_view("c"));
  two.add(std::string_view("a"));
  two.add(std::string_view("bc"));
  EXPECT_NE(one.finish(), two.finish());
}

TEST(Sha256, ReadsLowerCaseHexOnly) {
  const Sha256Digest digest = sha256_of(as_bytes("abc"));
  const std::string hex = digest.hex();
  EXPECT_EQ(Sha256Digest::parse(hex), digest);
  for (const std::string& wrong :
       {std::string(), hex.substr(1), hex + "0", "B" + hex.substr(1), "g" + hex.substr(1)})
    EXPECT_FALSE(Sha256Digest::parse(wrong)) << wrong;
}

}  // namespace
}  // namespace ctxgen
