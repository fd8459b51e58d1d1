#include "ctxgen/base/json.h"

#include <cstdlib>
#include <limits>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

std::string text_of(std::string_view value) { return JsonWriter().value(value).finish(); }

TEST(Json, IndentsByTwoAndKeepsTheOrderOfCalls) {
  JsonWriter json;
  json.begin_object();
  json.field("z", 1).field("a", "x");
  json.key("list").begin_array().value(1).value(2.5).value(true).null().end_array();
  json.key("empty").begin_array().end_array();
  json.key("none").begin_object().end_object();
  json.field("last", std::uint64_t{18446744073709551615U});
  json.end_object();
  EXPECT_EQ(json.finish(), R"({
  "z": 1,
  "a": "x",
  "list": [
    1,
    2.5,
    true,
    null
  ],
  "empty": [],
  "none": {},
  "last": 18446744073709551615
}
)");
}

TEST(Json, SeparatesNestedObjects) {
  JsonWriter json;
  json.begin_array();
  json.begin_object().field("a", 1).end_object();
  json.begin_object().field("b", std::int64_t{-9223372036854775807 - 1}).end_object();
  json.end_array();
  EXPECT_EQ(json.finish(),
            "[\n  {\n    \"a\": 1\n  },\n  {\n    \"b\": -9223372036854775808\n  }\n]\n");
}

TEST(Json, NumbersThatAreNotFiniteBecomeNull) {
  EXPECT_EQ(JsonWriter().value(std::numeric_limits<double>::quiet_NaN()).finish(), "null\n");
  EXPECT_EQ(JsonWriter().value(-std::numeric_limits<double>::infinity()).finish(), "null\n");
  JsonWriter json;
  json.begin_object().field("x", std::numeric_limits<double>::infinity()).end_object();
  EXPECT_EQ(json.finish(), "{\n  \"x\": null\n}\n");
}

TEST(Json, DoublesComeBackExactly) {
  for (double number : {0.1, 1e300, -5e-324, 123456789.125, 1.0 / 3})
    EXPECT_EQ(std::strtod(JsonWriter().value(number).finish().c_str(), nullptr), number);
}

TEST(Json, EscapesWhatMustBeEscaped) {
  EXPECT_EQ(text_of("a\"b\\c\n\r\t\x01"), "\"a\\\"b\\\\c\\n\\r\\t\\u0001\"\n");
  EXPECT_EQ(text_of(std::string_view("\0", 1)), "\"\\u0000\"\n");
}

TEST(Json, KeepsValidUtf8) {
  for (std::string_view text : {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xef\xbf\xbf",
                                "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"})
    EXPECT_EQ(text_of(text), '"' + std::string(text) + "\"\n");
}

TEST(Json, ReplacesWhatIsNotUtf8) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(text_of("a\xff\x62"), "\"a" + bad + "b\"\n");
  EXPECT_EQ(text_of("\xc3"), '"' + bad + "\"\n");                                // cut off
  EXPECT_EQ(text_of("\xc0\xaf"), '"' + bad + bad + "\"\n");                      // overlong "/"
  EXPECT_EQ(text_of("\xed\xa0\x80"), '"' + bad + bad + bad + "\"\n");            // a surrogate
  EXPECT_EQ(text_of("\xf4\x90\x80\x80"), '"' + bad + bad + bad + bad + "\"\n");  // above U+10FFFF
  EXPECT_EQ(text_of("\x80"), '"' + bad + "\"\n");  // a continuation alone
}

TEST(JsonDeathTest, CallsMustNest) {
  EXPECT_DEATH(JsonWriter().end_object(), "assertion failed");
  EXPECT_DEATH(static_cast<void>(JsonWriter().begin_array().finish()), "assertion failed");
}

}  // namespace
}  // namespace ctxgen
