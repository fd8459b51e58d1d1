#include "ctxgen/tuning/tuning_file.h"

#include <algorithm>
#include <charconv>
#include <format>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/file.h"
#include "ctxgen/base/file_lock.h"
#include "ctxgen/base/json.h"
#include "ctxgen/base/json_value.h"
#include "ctxgen/base/suggest.h"
#include "ctxgen/tuning/precision_search.h"

namespace ctxgen {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::string_view kVersionName = "ctxgen_tuning";
constexpr std::size_t kLongestWord = 256;

/// "64x3x7x7".
std::string dims_text(const Dims& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += std::format("{}{}", text.empty() ? "" : "x", dim);
  return text;
}

/// The members of an object of a file, each of which has to be one of `fields`.
class Fields {
 public:
  static Result<Fields> of(const JsonValue& value, std::string what,
                           std::span<const std::string_view> fields) {
    const auto* object = value.as<JsonValue::Object>();
    if (object == nullptr) return fail(ErrorCode::kInvalidArgument, "{}: expected an object", what);
    for (const JsonMember& member : *object)
      if (!std::ranges::contains(fields, member.name)) {
        const std::vector<std::string> names(fields.begin(), fields.end());
        return fail(ErrorCode::kInvalidArgument, "{}: unknown field \"{}\"{}; known are: {}", what,
                    member.name, did_you_mean(member.name, names), list_text(names));
      }
    return Fields(*object, std::move(what));
  }

  [[nodiscard]] const JsonValue* find(std::string_view name) const {
    const auto found = std::ranges::find(*object_, name, &JsonMember::name);
    return found == object_->end() ? nullptr : &found->value;
  }

  [[nodiscard]] Result<std::string> text(std::string_view name) const {
    const JsonValue* value = find(name);
    const auto* text = value == nullptr ? nullptr : value->as<std::string>();
    if (text == nullptr || text->empty() || text->size() > kLongestWord)
      return wrong(name, std::format("a text of 1 to {} bytes", kLongestWord));
    return *text;
  }

  [[nodiscard]] Result<std::int64_t> count(std::string_view name, std::int64_t least,
                                           std::int64_t missing) const {
    const JsonValue* value = find(name);
    if (value == nullptr) return missing;
    const auto* number = value->as<std::int64_t>();
    if (number == nullptr || *number < least)
      return wrong(name, std::format("a whole number from {} on", least));
    return *number;
  }

  /// Microseconds.
  [[nodiscard]] Result<double> time(std::string_view name) const {
    const JsonValue* value = find(name);
    if (value == nullptr) return 0.0;
    double us = -1;
    if (const auto* real = value->as<double>()) us = *real;
    if (const auto* whole = value->as<std::int64_t>()) us = static_cast<double>(*whole);
    if (!(us >= 0)) return wrong(name, "a number from 0 on");
    return us;
  }

  [[nodiscard]] Result<DataType> type(std::string_view name) const {
    const std::string word = CTXGEN_TRY(text(name));
    const auto type = data_type_from_name(word);
    if (!type) return wrong(name, "a type of elements, as float32");
    return *type;
  }

  /// As dims_text() writes them.
  [[nodiscard]] Result<Dims> dims(std::string_view name) const {
    const std::string word = CTXGEN_TRY(text(name));
    Dims dims;
    const char* at = word.data();
    const char* const end = at + word.size();
    while (dims.size() < kMaxRank) {
      std::int64_t dim = 0;
      const auto [stop, error] = std::from_chars(at, end, dim);
      if (error != std::errc() || dim < 1) break;
      dims.push_back(dim);
      if (stop == end && checked_element_count(dims)) return dims;
      if (stop == end || *stop != 'x') break;
      at = stop + 1;
    }
    return wrong(name, "sizes above 0 with x between them, as 64x3x7x7");
  }

  [[nodiscard]] std::unexpected<Error> wrong(std::string_view name,
                                             std::string_view expected) const {
    return fail(ErrorCode::kInvalidArgument, "{}: \"{}\": expected {}", what_, name, expected);
  }

 private:
  Fields(const JsonValue::Object& object, std::string what)
      : object_(&object), what_(std::move(what)) {}
  const JsonValue::Object* object_;
  std::string what_;
};

/// One for each spatial dim of a convolution; 1 each where they are not given.
Result<Dims> window_numbers(const Fields& fields, std::string_view name, const Dims& weight) {
  const std::size_t spatial = weight.size() > 2 ? weight.size() - 2 : 0;
  if (fields.find(name) == nullptr) return Dims(spatial, 1);
  const Dims numbers = CTXGEN_TRY(fields.dims(name));
  if (numbers.size() == spatial) return numbers;
  return fields.wrong(name,
                      std::format("as many numbers as the constant has spatial dims, {}", spatial));
}

/// Those of narrow_precisions(), each once.
Result<std::optional<std::vector<std::string>>> precisions_of(const Fields& fields) {
  const JsonValue* value = fields.find("precisions");
  if (value == nullptr) return std::nullopt;
  const auto known = narrow_precisions();
  const std::vector<std::string> names(known.begin(), known.end());
  const auto wrong = [&] {
    return fields.wrong("precisions", "an array of different ones of " + list_text(names));
  };
  const auto* items = value->as<JsonValue::Array>();
  if (items == nullptr || items->size() > known.size()) return wrong();
  std::vector<std::string> precisions;
  for (const JsonValue& item : *items) {
    const auto* word = item.as<std::string>();
    if (word == nullptr || !std::ranges::contains(names, *word) ||
        std::ranges::contains(precisions, *word))
      return wrong();
    precisions.push_back(*word);
  }
  return precisions;
}

Result<TuningRow> parse_row(const JsonValue& value, std::size_t index) {
  static constexpr std::string_view kFields[] = {"op",    "weight",  "source",    "dims",
                                                 "group", "strides", "dilations", "rows",
                                                 "form",  "us",      "table_us",  "precisions"};
  const Fields fields = CTXGEN_TRY(
      Fields::of(value, std::format("row {} (line {})", index + 1, value.line), kFields));
  TuningRow row;
  TunedShape& shape = row.shape;
  shape.op = CTXGEN_TRY(fields.text("op"));
  shape.weight = CTXGEN_TRY(fields.type("weight"));
  shape.source =
      fields.find("source") == nullptr ? shape.weight : CTXGEN_TRY(fields.type("source"));
  shape.dims = CTXGEN_TRY(fields.dims("dims"));
  shape.group = CTXGEN_TRY(fields.count("group", 1, 1));
  if (shape.group != 1 && shape.dims.size() <= 2)
    return fields.wrong("group", "1, or none, where the constant has no spatial dims");
  if (shape.dims[0] % shape.group != 0)
    return fields.wrong("group",
                        std::format("a divisor of the first of \"dims\", {}", shape.dims[0]));
  shape.strides = CTXGEN_TRY(window_numbers(fields, "strides", shape.dims));
  shape.dilations = CTXGEN_TRY(window_numbers(fields, "dilations", shape.dims));
  shape.rows = CTXGEN_TRY(fields.count("rows", 1, 0));
  if ((shape.rows & (shape.rows - 1)) != 0) return fields.wrong("rows", "a power of two");
  row.form = CTXGEN_TRY(fields.text("form"));
  row.us = CTXGEN_TRY(fields.time("us"));
  row.table_us = CTXGEN_TRY(fields.time("table_us"));
  row.precisions = CTXGEN_TRY(precisions_of(fields));
  return row;
}

Result<std::vector<TuningRow>> parse_rows(const JsonValue* value) {
  const auto* items = value == nullptr ? nullptr : value->as<JsonValue::Array>();
  if (items == nullptr) return fail(ErrorCode::kInvalidArgument, "\"rows\": expected an array");
  if (items->size() > kMostTuningRows)
    return fail(ErrorCode::kResourceLimit, "{} rows, at most {} are read", items->size(),
                kMostTuningRows);
  std::vector<TuningRow> rows;
  for (const JsonValue& item : *items) rows.push_back(CTXGEN_TRY(parse_row(item, rows.size())));
  std::ranges::sort(rows, {}, &TuningRow::shape);
  const auto twice = std::ranges::adjacent_find(rows, {}, &TuningRow::shape);
  if (twice == rows.end()) return rows;
  return fail(ErrorCode::kInvalidArgument, "two rows for {}", to_string(twice->shape));
}

}  // namespace

std::string tuning_text(const TuningTable& table) {
  JsonWriter json;
  json.begin_object()
      .field(kVersionName, kVersion)
      .field("library", table.library)
      .field("instruction_set", table.instruction_set);
  if (!table.machine.empty()) json.field("machine", table.machine);
  json.field("threads", table.threads);
  json.key("rows").begin_array();
  for (const TuningRow& row : table.rows) {
    const TunedShape& shape = row.shape;
    json.begin_object()
        .field("op", shape.op)
        .field("weight", name_of(shape.weight))
        .field("source", name_of(shape.source))
        .field("dims", dims_text(shape.dims));
    if (!shape.strides.empty())
      json.field("group", shape.group)
          .field("strides", dims_text(shape.strides))
          .field("dilations", dims_text(shape.dilations));
    if (shape.rows > 0) json.field("rows", shape.rows);
    json.field("form", row.form);
    if (row.us > 0) json.field("us", row.us);
    if (row.table_us > 0) json.field("table_us", row.table_us);
    if (row.precisions) {
      json.key("precisions").begin_array();
      for (const std::string& precision : *row.precisions) json.value(precision);
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

Result<TuningTable> parse_tuning(std::string_view text) {
  static constexpr std::string_view kFields[] = {kVersionName, "library", "instruction_set",
                                                 "machine",    "threads", "rows"};
  const JsonValue document = CTXGEN_TRY(parse_json(text));
  const Fields fields = CTXGEN_TRY(Fields::of(document, "tuning", kFields));
  if (fields.find(kVersionName) == nullptr)
    return fail(ErrorCode::kInvalidArgument, "no \"{}\": not a tuning file", kVersionName);
  const std::int64_t version = CTXGEN_TRY(fields.count(kVersionName, 1, 0));
  if (version > kVersion)
    return fail(ErrorCode::kVersionMismatch, "version {} of the format, this release knows {}",
                version, kVersion);
  TuningTable table;
  table.library = CTXGEN_TRY(fields.text("library"));
  table.instruction_set = CTXGEN_TRY(fields.text("instruction_set"));
  if (fields.find("machine") != nullptr) table.machine = CTXGEN_TRY(fields.text("machine"));
  const std::int64_t threads = CTXGEN_TRY(fields.count("threads", 0, 0));
  table.threads =
      static_cast<int>(std::min<std::int64_t>(threads, std::numeric_limits<int>::max()));
  table.rows = CTXGEN_TRY(parse_rows(fields.find("rows")));
  return table;
}

Result<TuningTable> read_tuning_file(const std::filesystem::path& path) {
  const std::string name = std::format("tuning file \"{}\"", path.string());
  const auto read = [&]() -> Result<TuningTable> {
    const Blob file = CTXGEN_TRY(map_file(path));
    if (file.bytes.size() > kMostTuningBytes)
      return fail(ErrorCode::kResourceLimit, "{} bytes, at most {} are read", file.bytes.size(),
                  kMostTuningBytes);
    return parse_tuning(std::string(as_text(file.bytes)));  // it may change while it is mapped
  };
  auto table = read();
  if (!table) return std::unexpected(with_context(std::move(table).error(), name));
  return table;
}

Status check_continued(const TuningTable& known, const TuningTable& now) {
  const auto other = [](std::string_view a, std::string_view b) {
    return !a.empty() && !b.empty() && a != b;
  };
  const std::pair<std::string_view, std::string_view> texts[] = {
      {known.machine, now.machine},
      {known.library, now.library},
      {known.instruction_set, now.instruction_set}};
  for (const auto& [was, is] : texts)
    if (other(was, is))
      return fail(ErrorCode::kInvalidArgument,
                  "tuning: the file was measured on \"{}\", this is \"{}\": give another file", was,
                  is);
  if (known.threads != 0 && known.threads != now.threads)
    return fail(ErrorCode::kInvalidArgument,
                "tuning: the file was measured with threads={}, this is threads={}: give another "
                "file",
                known.threads, now.threads);
  return {};
}

namespace {

/// Of the folder, because the file may not exist yet, and is replaced when it is written.
Result<FileLock> lock_tuning_file(const std::filesystem::path& path,
                                  std::chrono::milliseconds wait) {
  std::error_code error;
  const auto file = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  if (error)
    return fail(ErrorCode::kIoError, "tuning file \"{}\": {}", path.string(), error.message());
  auto lock = lock_path(file.parent_path(), {.most = wait});
  if (lock) return lock;
  return std::unexpected(
      with_context(std::move(lock).error(), std::format("tuning file \"{}\"", path.string())));
}

}  // namespace

Status check_tuning_file(const std::filesystem::path& path, std::chrono::milliseconds wait) {
  CTXGEN_CHECK(check_writable(path));
  (void)CTXGEN_TRY(lock_tuning_file(path, wait));
  return {};
}

Result<TuningTable> add_to_tuning_file(const std::filesystem::path& path, TuningTable table,
                                       std::chrono::milliseconds wait) {
  const FileLock lock = CTXGEN_TRY(lock_tuning_file(path, wait));
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    TuningTable there = CTXGEN_TRY(read_tuning_file(path));
    CTXGEN_CHECK(check_continued(there, table));
    std::erase_if(there.rows, [&](const TuningRow& row) {
      return std::ranges::contains(table.rows, row.shape, &TuningRow::shape);
    });
    std::ranges::move(there.rows, std::back_inserter(table.rows));
  }
  std::ranges::sort(table.rows, {}, &TuningRow::shape);
  const std::string text = tuning_text(table);
  if (table.rows.size() > kMostTuningRows || text.size() > kMostTuningBytes)
    return fail(ErrorCode::kResourceLimit,
                "tuning file \"{}\": {} rows in {} bytes, at most {} in {} are read: give another "
                "file",
                path.string(), table.rows.size(), text.size(), kMostTuningRows, kMostTuningBytes);
  CTXGEN_CHECK(write_file(path, as_bytes(text)));
  return table;
}

}  // namespace ctxgen
