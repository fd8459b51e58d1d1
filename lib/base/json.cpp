#include "ctxgen/base/json.h"

#include <charconv>
#include <cmath>
#include <format>

#include "ctxgen/base/status.h"

namespace ctxgen {
namespace {

/// Length of the UTF-8 sequence at the start of `text`, 0 if there is none (RFC 3629: no
/// overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (lead == 0xe0) low = 0xa0;
  if (lead == 0xed) high = 0x9f;
  if (lead == 0xf0) low = 0x90;
  if (lead == 0xf4) high = 0x8f;
  if (at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  return length;
}

void append_control(std::string& out, char c) {
  switch (c) {
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    default: out += std::format("\\u{:04x}", unsigned{static_cast<unsigned char>(c)});
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0)
      out += "\xEF\xBF\xBD";  // U+FFFD, one for each byte that fits nowhere
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f')
      append_control(out, c);
    else if (length == 2 && c == '\xc2' && static_cast<unsigned char>(text[1]) < 0xA0)
      append_control(out, text[1]);  // U+0080 to U+009F: some terminals obey them
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

template <class T>
void append_number(std::string& out, T number) {
  char digits[32];  // the longest double takes 24
  const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out.append(digits, end);
}

}  // namespace

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (depth_ == 0) return;
  if (!first_) out_ += ',';
  out_ += '\n';
  out_.append(static_cast<std::size_t>(depth_) * 2, ' ');
  first_ = false;
}

JsonWriter& JsonWriter::begin_object() {
  separate();
  out_ += '{';
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  CTXGEN_ASSERT(depth_ > 0 && !after_key_);
  --depth_;
  if (!first_) (out_ += '\n').append(static_cast<std::size_t>(depth_) * 2, ' ');
  out_ += '}';
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  separate();
  out_ += '[';
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  CTXGEN_ASSERT(depth_ > 0 && !after_key_);
  --depth_;
  if (!first_) (out_ += '\n').append(static_cast<std::size_t>(depth_) * 2, ' ');
  out_ += ']';
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  CTXGEN_ASSERT(depth_ > 0 && !after_key_);
  separate();
  append_quoted(out_, name);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  append_quoted(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) {
  separate();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t number) {
  separate();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  separate();
  out_ += flag ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}

std::string JsonWriter::finish() {
  CTXGEN_ASSERT(depth_ == 0 && !after_key_);
  out_ += '\n';
  return std::move(out_);
}

}  // namespace ctxgen
