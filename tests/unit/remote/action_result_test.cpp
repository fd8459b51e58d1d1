#include "action_result.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/blob.h"

#include "code_of.h"

namespace ctxgen {
namespace {

std::vector<ResultFile> two_files() {
  return {{"entry", sha256_of(as_bytes("one")), 3}, {"blob/0", sha256_of({}), 0}};
}

TEST(ActionResult, ComesBack) {
  const auto message = encode_action_result(two_files());
  const auto files = decode_action_result(message).value();
  ASSERT_EQ(files.size(), 2U);
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].path, two_files()[i].path);
    EXPECT_EQ(files[i].digest, two_files()[i].digest);
    EXPECT_EQ(files[i].bytes, two_files()[i].bytes);
  }
}

// build.bazel.remote.execution.v2: ActionResult.output_files = 2, OutputFile.path = 1 and .digest = 2, Digest.hash = 1
// and .size_bytes = 2.
TEST(ActionResult, HasTheFieldsOfBazel) {
  const std::vector<ResultFile> one{{"e", Sha256Digest{}, 5}};
  const std::string digest = "\x0a\x40" + std::string(64, '0') + "\x10\x05";
  const std::string file = std::string("\x0a\x01") + "e" + "\x12\x44" + digest;
  EXPECT_EQ(as_text(encode_action_result(one)), "\x12\x49" + file);
}

TEST(ActionResult, PassesOverOtherFields) {
  std::string message("\x20\x00", 2);  // exit_code = 0
  const auto files = encode_action_result(two_files());
  message += as_text(files);
  message += "\x2a\x02hi";  // stdout_raw
  EXPECT_EQ(decode_action_result(as_bytes(message)).value().size(), 2U);
}

TEST(ActionResult, NoTruncationIsTakenForMoreThanItIs) {
  const auto message = encode_action_result(two_files());
  for (std::size_t n = 0; n < message.size(); ++n) {
    const auto files = decode_action_result(std::span(message).first(n));
    EXPECT_LT(files ? files->size() : 0U, 2U) << n << " bytes";
  }
}

TEST(ActionResult, EveryFlippedBitIsReadOrRefused) {
  auto message = encode_action_result(two_files());
  for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
    message[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto files = decode_action_result(message);
    EXPECT_TRUE(files || files.error().code == ErrorCode::kCorruptContext) << bit;
    message[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(ActionResult, DigestsOfAnotherKindAreRefused) {
  const std::string digest =
      "\x0a\x04"
      "abcd";
  const std::string file = "\x12" + std::string(1, static_cast<char>(digest.size())) + digest;
  const std::string message = "\x12" + std::string(1, static_cast<char>(file.size())) + file;
  EXPECT_EQ(test::code_of(decode_action_result(as_bytes(message))), ErrorCode::kCorruptContext);
}

}  // namespace
}  // namespace ctxgen
