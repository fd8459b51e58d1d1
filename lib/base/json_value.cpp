#include "ctxgen/base/json_value.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace ctxgen {
namespace {

constexpr std::size_t kMostMembers = 256;   // each name is compared with those before it
constexpr std::size_t kLongestQuote = 200;  // of a document, in an error

/// Where the parser is.
struct Position {
  std::uint32_t line = 1;
  char last = 0;  // the character before
  /// A number ends where the character after it has been read.
  [[nodiscard]] std::uint32_t line_of_number() const { return line - (last == '\n' ? 1 : 0); }
};

/// Characters of a document; keeps count of its lines.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Position& position) : at_(at), position_(&position) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    position_->last = *at_;
    position_->line += *at_ == '\n' ? 1 : 0;
    ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  Position* position_;
};

/// Makes a JsonValue of the parser's events; one that gives false ends the parser.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(const JsonLimits& limits, const Position& position)
      : limits_(limits), position_(position) {}

  bool null() override { return add(nullptr, position_.line); }
  bool boolean(bool value) override { return add(value, position_.line); }
  bool number_integer(std::int64_t value) override {
    return add(value, position_.line_of_number());
  }
  bool number_unsigned(std::uint64_t value) override {
    const std::uint32_t line = position_.line_of_number();
    return std::in_range<std::int64_t>(value) ? add(static_cast<std::int64_t>(value), line)
                                              : add(static_cast<double>(value), line);
  }
  bool number_float(double value, const std::string& /*digits*/) override {
    return add(value, position_.line_of_number());
  }
  bool string(std::string& value) override { return add(std::move(value), position_.line); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }  // never of a text
  bool start_array(std::size_t /*size*/) override { return open(JsonValue::Array()); }
  bool start_object(std::size_t /*size*/) override { return open(JsonValue::Object()); }
  bool end_array() override { return close(); }
  bool end_object() override { return close(); }
  bool key(std::string& name) override;
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override;

  Result<JsonValue> finish() && {
    if (error_) return std::unexpected(std::move(*error_));
    return std::move(root_);
  }

 private:
  template <class... Args>
  bool refuse(ErrorCode code, std::format_string<Args...> text, Args&&... args) {
    error_ = fail(code, text, std::forward<Args>(args)...).error();
    return false;
  }
  /// The place of the next value, or nullptr: the document is too large.
  JsonValue* place();
  template <class T>
  bool add(T&& value, std::uint32_t line) {
    JsonValue* const at = place();
    if (at != nullptr) *at = {.value = std::forward<T>(value), .line = line};
    return at != nullptr;
  }
  template <class T>
  bool open(T&& container) {
    JsonValue* const at = place();
    if (at == nullptr) return false;
    *at = {.value = std::forward<T>(container), .line = position_.line};
    open_.push_back(at);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  const Position& position_;
  JsonValue root_;
  std::vector<JsonValue*> open_;  // in each other; what holds one of them does not grow meanwhile
  std::size_t values_ = 0;
  std::optional<Error> error_;
};

JsonValue* Builder::place() {
  if (++values_ > limits_.values || open_.size() > limits_.depth) {
    refuse(ErrorCode::kResourceLimit, "line {}: more than {} values, or than {} in each other",
           position_.line, limits_.values, limits_.depth);
    return nullptr;
  }
  if (open_.empty()) return &root_;
  if (auto* items = std::get_if<JsonValue::Array>(&open_.back()->value))
    return &items->emplace_back();
  return &std::get<JsonValue::Object>(open_.back()->value).back().value;
}

bool Builder::key(std::string& name) {
  auto& members = std::get<JsonValue::Object>(open_.back()->value);
  if (members.size() >= kMostMembers)
    return refuse(ErrorCode::kResourceLimit, "line {}: more than {} names in an object",
                  position_.line, kMostMembers);
  if (std::ranges::contains(members, name, &JsonMember::name))
    return refuse(ErrorCode::kInvalidArgument, "line {}: \"{}\" is there twice", position_.line,
                  name.substr(0, kLongestQuote));
  members.push_back({.name = std::move(name), .value = {}});
  return true;
}

bool Builder::parse_error(std::size_t /*position*/, const std::string& /*token*/,
                          const nlohmann::json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 2, column 1: syntax error while ..."
  std::string_view reason = error.what();
  for (const std::string_view before : {"] ", "parse error at line ", ": "})
    if (const auto at = reason.find(before); at != std::string_view::npos)
      reason.remove_prefix(at + before.size());
  return refuse(ErrorCode::kInvalidArgument, "line {}: {}", position_.line_of_number(),
                reason.substr(0, kLongestQuote));
}

}  // namespace

Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits) {
  Position position;
  Builder builder(limits, position);
  const char* const end = text.data() + text.size();
  // What ends the parser is kept by the builder.
  nlohmann::json::sax_parse(CountingIterator(text.data(), position),
                            CountingIterator(end, position), &builder);
  return std::move(builder).finish();
}

void write_json(JsonWriter& json, const JsonValue& value) {
  if (const auto* items = value.as<JsonValue::Array>()) {
    json.begin_array();
    for (const JsonValue& item : *items) write_json(json, item);
    json.end_array();
  } else if (const auto* members = value.as<JsonValue::Object>()) {
    json.begin_object();
    for (const JsonMember& member : *members) write_json(json.key(member.name), member.value);
    json.end_object();
  } else if (value.as<std::nullptr_t>() != nullptr) {
    json.null();
  } else if (const auto* text = value.as<std::string>()) {
    json.value(*text);
  } else if (const auto* flag = value.as<bool>()) {
    json.value(*flag);
  } else if (const auto* whole = value.as<std::int64_t>()) {
    json.value(*whole);
  } else {
    json.value(std::get<double>(value.value));
  }
}

}  // namespace ctxgen
