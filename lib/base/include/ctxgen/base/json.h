#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ctxgen {

/// Writes one JSON document, indented by two blanks, keys in the order of the calls. Numbers that
/// are not finite become null; strings that are not UTF-8 get U+FFFD. Calls must nest properly.
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(int number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(bool flag);
  JsonWriter& null();
  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }
  /// The document with a final newline.
  [[nodiscard]] std::string finish();

 private:
  void separate();
  std::string out_;
  int depth_ = 0;
  bool first_ = true;
  bool after_key_ = false;
};

}  // namespace ctxgen
