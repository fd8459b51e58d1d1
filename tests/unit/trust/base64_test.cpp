#include "base64.h"

#include <string>

#include <gtest/gtest.h>

#include "ctxgen/base/blob.h"

namespace ctxgen {
namespace {

TEST(Base64, HasThePublishedTexts) {  // RFC 4648, section 10
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(base64_of(as_bytes(bytes)), text);
    const auto back = from_base64(text);
    ASSERT_TRUE(back) << text;
    EXPECT_EQ(as_text(*back), bytes);
  }
}

TEST(Base64, TakesNothingElse) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg==\n", " Zg==", "Zh==", "Zm9=", "Zg==Zg==", "=",
                           "====", "Z===", "Zm-v", "Zm_v", "Zm9v="})
    EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace
}  // namespace ctxgen
