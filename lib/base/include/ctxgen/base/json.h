#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

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
  /// A field that is an array of values.
  template <class List>
  JsonWriter& list(std::string_view name, const List& values) {
    key(name).begin_array();
    for (const auto& one : values)
      if constexpr (std::same_as<std::remove_cvref_t<decltype(one)>, std::uint32_t>)
        value(std::uint64_t{one});
      else
        value(one);
    return end_array();
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
