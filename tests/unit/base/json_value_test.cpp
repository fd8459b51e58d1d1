#include "ctxgen/base/json_value.h"

#include <string>

#include <gtest/gtest.h>

#include "ctxgen/base/json.h"

#include "code_of.h"

namespace ctxgen::test {
namespace {

const JsonValue* member(const JsonValue& object, std::string_view name) {
  for (const auto& [known, value] : *object.as<JsonValue::Object>())
    if (known == name) return &value;
  return nullptr;
}

TEST(JsonValue, HasWhatTheDocumentSays) {
  const JsonValue value = parse_json(" {\"a\": [1, -2.5, true, null],\n \"b\": {}} ").value();
  const auto& items = *member(value, "a")->as<JsonValue::Array>();
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(*items[0].as<std::int64_t>(), 1);
  EXPECT_EQ(*items[1].as<double>(), -2.5);
  EXPECT_EQ(*items[2].as<bool>(), true);
  EXPECT_NE(items[3].as<std::nullptr_t>(), nullptr);
  EXPECT_TRUE(member(value, "b")->as<JsonValue::Object>()->empty());
  EXPECT_EQ(member(value, "a")->line, 1U);
  EXPECT_EQ(member(value, "b")->line, 2U);
}

TEST(JsonValue, NumbersKeepTheirDigits) {
  const auto number = [](const char* text) { return parse_json(text).value(); };
  EXPECT_EQ(*number("9223372036854775807").as<std::int64_t>(), INT64_MAX);
  EXPECT_EQ(*number("-9223372036854775808").as<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(*number("9223372036854775808").as<double>(), 0x1p63);
  EXPECT_EQ(*number("1e3").as<double>(), 1000);
  EXPECT_EQ(*number("0").as<std::int64_t>(), 0);
}

TEST(JsonValue, StringsAreUnescaped) {
  EXPECT_EQ(*parse_json("\"a\\n\\\"\\/\\u00e9\\ud83d\\ude00\"").value().as<std::string>(),
            "a\n\"/\xC3\xA9\xF0\x9F\x98\x80");
}

TEST(JsonValue, ReadsWhatTheWriterWrites) {
  JsonWriter json;
  json.begin_object().field("text", "\x01 \"quoted\" \xC3\xA9").field("number", 0.1).end_object();
  const JsonValue value = parse_json(json.finish()).value();
  EXPECT_EQ(*member(value, "text")->as<std::string>(), "\x01 \"quoted\" \xC3\xA9");
  EXPECT_EQ(*member(value, "number")->as<double>(), 0.1);
}

TEST(JsonValue, IsWrittenAsItWasRead) {
  const std::string text =
      "{\n  \"a\": [\n    1,\n    -2.5,\n    true,\n    null\n  ],\n  \"b\": {},\n  \"c\": \"\\\"\"\n}\n";
  JsonWriter json;
  write_json(json, parse_json(text).value());
  EXPECT_EQ(json.finish(), text);
}

TEST(JsonValue, RefusesWhatIsNoDocument) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1",
                           "[1,]",
                           "{\"a\"}",
                           "{\"a\": 1,}",
                           "{a: 1}",
                           "01",
                           "1.",
                           "-",
                           "+1",
                           "1e",
                           "1e999",
                           "nul",
                           "\"",
                           "\"\n\"",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "\"\\u12\"",
                           "1 2",
                           "'a'",
                           "{\"a\": 1, \"a\": 2}",
                           "NaN",
                           "\"\xff\"",
                           "[] \xff"})
    EXPECT_EQ(code_of(parse_json(text)), ErrorCode::kInvalidArgument) << text;
}

TEST(JsonValue, NamesTheLine) {
  const JsonValue numbers = parse_json("[\n1\n,2]\n").value();
  const auto& items = *numbers.as<JsonValue::Array>();
  EXPECT_EQ(numbers.line, 1U);
  EXPECT_EQ(items[0].line, 2U);
  EXPECT_EQ(items[1].line, 3U);
  EXPECT_TRUE(parse_json("{\n \"a\": 1,\n oops}").error().message.contains("line 3"));
}

TEST(JsonValue, BoundsWhatADocumentMayTake) {
  EXPECT_EQ(code_of(parse_json(std::string(100000, '['))), ErrorCode::kResourceLimit);
  std::string many = "[0";
  for (int i = 0; i < 100; ++i) many += ",0";
  many += "]";
  EXPECT_EQ(code_of(parse_json(many, {.values = 50})), ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(parse_json(many)), kOk);
}

}  // namespace
}  // namespace ctxgen::test
