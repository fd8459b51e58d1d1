#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "numbers/e8m0.h"
#include "numbers/float8.h"

namespace ctxgen::cpu {
namespace {

template <class To, class From>
void convert_all(const Tensor& from, Tensor& to) {
  const From* source = data_of<From>(from);
  To* target = mutable_data_of<To>(to);
  const std::int64_t count = to.element_count();
  for (std::int64_t i = 0; i < count; ++i) target[i] = store<To>(load(source[i]));
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

template <class To>
std::optional<To> parse(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  if constexpr (std::is_integral_v<To>) {
    To value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc{} && stop == end) return value;
    return std::nullopt;
  } else {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc{} && stop == end) return store<To>(value);
    return std::nullopt;
  }
}

Status strings_to_numbers(const Tensor& from, Tensor& to) {
  return dispatch(NumericAndBoolTypes{}, to.type(), [&]<class To>() -> Status {
    To* target = mutable_data_of<To>(to);
    for (const std::string& text : from.strings()) {
      const auto value = parse<To>(text);
      if (!value)
        return fail(ErrorCode::kInvalidGraph, "\"{}\" is not a {}", text, name_of(to.type()));
      *target++ = *value;
    }
    return {};
  });
}

// The shortest text that reads back as the same number, like C's %g where that is exact.
std::string number_text(auto value) {
  if constexpr (std::is_floating_point_v<decltype(value)>) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  }
  return std::format("{}", value);
}

Status numbers_to_strings(const Tensor& from, Tensor& to) {
  return dispatch(NumericAndBoolTypes{}, from.type(), [&]<class From>() -> Status {
    const From* source = data_of<From>(from);
    for (std::string& text : to.mutable_strings()) {
      if constexpr (std::is_same_v<From, Bit>)
        text = *source++ ? "True" : "False";
      else
        text = number_text(load(*source++));
    }
    return {};
  });
}

/// Attributes that matter for 8-bit floats only.
struct CastRules {
  bool saturate = true;
  E8m0Rounding rounding = E8m0Rounding::kUp;
};

Result<CastRules> cast_rules(const Node& node) {
  const std::string mode = CTXGEN_TRY(one_of(node, "round_mode", "up", {"up", "down", "nearest"}));
  return CastRules{.saturate = node.int_or("saturate", 1) != 0,
                   .rounding = mode == "up"     ? E8m0Rounding::kUp
                               : mode == "down" ? E8m0Rounding::kDown
                                                : E8m0Rounding::kNearest};
}

/// Whether elements are computed with as they are stored.
bool is_plain(DataType type) {
  return type != DataType::kFloat8E8M0 && !is_small_float(type) && !is_packed_int(type);
}

/// Between plain types; `to` has the dims of `from`.
Status convert(const Tensor& from, Tensor& to) {
  if (from.is_string()) return strings_to_numbers(from, to);
  if (to.is_string()) return numbers_to_strings(from, to);
  return dispatch(NumericAndBoolTypes{}, to.type(), [&]<class To>() {
    return dispatch(NumericAndBoolTypes{}, from.type(), [&]<class From>() -> Status {
      convert_all<To, From>(from, to);
      return {};
    });
  });
}

void unpack(const Tensor& from, Tensor& wide) {
  if (from.type() == DataType::kFloat8E8M0)
    unpack_e8m0(from, wide);
  else
    unpack_small(from, wide);
}

void pack(const Tensor& wide, Tensor& to, const CastRules& rules) {
  if (to.type() == DataType::kFloat8E8M0)
    pack_e8m0(wide, to, rules.rounding, rules.saturate);
  else
    pack_small(wide, to, rules.saturate);
}

/// The conversions between a type that no kernel computes in and the others.
DataType between(DataType type) {
  return type == DataType::kFloat8E8M0 ? DataType::kFloat : unpacked_type(type);
}

/// `to` has the dims of `from` and another type. What is between is memory of the run.
Status cast(KernelContext& context, const Tensor& from, Tensor& to, const CastRules& rules) {
  if (!is_plain(from.type())) {
    const DataType type = between(from.type());
    if (type == to.type()) {
      unpack(from, to);
      return {};
    }
    Tensor wide = CTXGEN_TRY(context.make_tensor(type, from.dims()));
    unpack(from, wide);
    return cast(context, wide, to, rules);
  }
  if (is_plain(to.type())) return convert(from, to);
  // Floats go through a signed type, so that negative ones wrap in uint4 as integers do.
  const DataType type = is_packed_int(to.type()) ? DataType::kInt8 : between(to.type());
  Tensor wide = from;
  if (from.type() != type) {
    wide = CTXGEN_TRY(context.make_tensor(type, from.dims()));
    CTXGEN_CHECK(convert(from, wide));
  }
  pack(wide, to, rules);
  return {};
}

Status run_cast(KernelContext& context, DataType type, const CastRules& rules) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  if (input->type() == type) {
    context.set_output(0, *input);
    return {};
  }
  return cast(context, *input, *CTXGEN_TRY(context.make_output(0, type, input->dims())), rules);
}

// Opset 1 to 5 name the type in a string ("FLOAT").
Result<DataType> target_type(const Node& node) {
  const Attribute* to = node.attribute("to");
  if (to == nullptr) return fail(ErrorCode::kInvalidGraph, "{}: no attribute to", node.describe());
  if (to->kind == AttributeKind::kString) {
    constexpr std::string_view kNames[] = {"FLOAT",  "UINT8",  "INT8",   "UINT16", "INT16",
                                           "INT32",  "INT64",  "STRING", "BOOL",   "FLOAT16",
                                           "DOUBLE", "UINT32", "UINT64"};
    for (std::size_t i = 0; i < std::size(kNames); ++i)
      if (to->s == kNames[i]) return static_cast<DataType>(i + 1);
    return fail(ErrorCode::kUnsupported, "{}: type \"{}\"", node.describe(), to->s);
  }
  if (!is_known_data_type(to->i))
    return fail(ErrorCode::kUnsupported, "{}: type number {}", node.describe(), to->i);
  return static_cast<DataType>(to->i);
}

KernelResult make_cast(const Node& node) {
  const DataType type = CTXGEN_TRY(target_type(node));
  if (type == DataType::kComplex64 || type == DataType::kComplex128)
    return fail(ErrorCode::kUnsupported, "{}: cast to {}", node.describe(), name_of(type));
  const CastRules rules = CTXGEN_TRY(cast_rules(node));
  return kernel([type, rules](KernelContext& context) { return run_cast(context, type, rules); });
}

KernelResult make_cast_like(const Node& node) {
  const CastRules rules = CTXGEN_TRY(cast_rules(node));
  return kernel([rules](KernelContext& context) -> Status {
    const Tensor* like = CTXGEN_TRY(required(context, 1));
    return run_cast(context, like->type(), rules);
  });
}

// ---- BitCast ----

// The bytes of the input, seen as another type of as many bits.
KernelResult make_bit_cast(const Node& node) {
  const DataType type = CTXGEN_TRY(target_type(node));
  if (type == DataType::kString)
    return fail(ErrorCode::kInvalidGraph, "{}: bits of {}", node.describe(), name_of(type));
  return kernel([type](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    if (input->is_string() || bits_of(input->type()) != bits_of(type))
      return fail(ErrorCode::kInvalidGraph, "an element of {} does not have the bits of {}",
                  name_of(input->type()), name_of(type));
    context.set_output(0, Tensor::borrow(type, input->dims(), input->owner(), input->bytes()));
    return {};
  });
}

constexpr std::string_view kLimits = "all types but complex";

constexpr OpRow kCastRows[] = {
    {kOnnx, "BitCast", 26, 26, make_bit_cast, "all types but strings"},
    {kOnnx, "Cast", 1, 25, make_cast, kLimits},
    {kOnnx, "CastLike", 15, 25, make_cast_like, kLimits},
};

}  // namespace

constinit const std::span<const OpRow> kCastOps = kCastRows;

}  // namespace ctxgen::cpu
