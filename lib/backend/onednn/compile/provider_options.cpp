#include "provider_options.h"

#include <array>
#include <charconv>
#include <format>

#include "ctxgen/base/instruction_set.h"

namespace ctxgen::onednn {

namespace {

constexpr std::string_view kWeights = "weights", kPrecision = "precision", kFpmath = "fpmath";

/// The text up to the next ':', which `text` is shortened by.
std::string_view take_part(std::string_view& text) {
  const std::size_t end = text.find(':');
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return part;
}

std::optional<std::int64_t> block_of(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kBlocks{"16", "32", "64", "128", "256"};
  for (const std::string_view block : kBlocks) {
    if (text != block) continue;
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  return std::nullopt;
}

/// "s8" or "s4", then ":BLOCK" and ":search", each at most once.
std::optional<LowBitWeights> read_weights(std::string_view text) {
  const std::string_view type = take_part(text);
  if (type != "s4" && type != "s8") return std::nullopt;
  LowBitWeights weights{.bits = type == "s4" ? 4 : 8};
  bool has_block = false;
  while (!text.empty()) {
    const std::string_view part = take_part(text);
    if (const auto block = block_of(part); block && !has_block && !weights.search) {
      weights.block = *block;
      has_block = true;
    } else if (part == "search" && !weights.search) {
      weights.search = true;
    } else {
      return std::nullopt;
    }
  }
  return weights;
}

std::optional<DataType> narrow_type(std::string_view text) {
  if (text == "bf16") return DataType::kBfloat16;
  if (text == "f16") return DataType::kFloat16;
  return std::nullopt;
}

std::string_view short_name(DataType type) { return type == DataType::kBfloat16 ? "bf16" : "f16"; }

Status read_arithmetic(std::string_view key, std::string_view value, DnnlOptions& read) {
  if (read.arithmetic)
    return fail(ErrorCode::kInvalidArgument,
                "option dnnl:{}: dnnl:precision or dnnl:fpmath is given already", key);
  const auto type = narrow_type(value);
  if (!type)
    return fail(ErrorCode::kInvalidArgument, "dnnl:{}={}: expected bf16 or f16", key, value);
  read.arithmetic = {*type, key == kPrecision};
  return {};
}

Status read_weights_option(std::string_view key, std::string_view value, DnnlOptions& read) {
  if (read.low_bit_weights || read.narrow_weights)
    return fail(ErrorCode::kInvalidArgument, "option dnnl:{} is given twice", key);
  read.narrow_weights = narrow_type(value);
  if (read.narrow_weights) return {};
  read.low_bit_weights = read_weights(value);
  if (read.low_bit_weights && !value.ends_with(':')) return {};
  return fail(ErrorCode::kInvalidArgument,
              "dnnl:{}={}: expected bf16 or f16, or s8 or s4, then maybe a block size (:16, :32, "
              ":64, :128 or :256) and :search, as in s4:64:search",
              key, value);
}

}  // namespace

std::vector<std::string> dnnl_option_names() {
  return {std::string(kFpmath), std::string(kPrecision), std::string(kWeights)};
}

Status check_arithmetic(const DnnlOptions& options, bool portable) {
  if (!options.arithmetic) return {};
  const bool brain = options.arithmetic->type == DataType::kBfloat16;
  const InstructionSet needed =
      brain ? InstructionSet::kAvx512CoreBf16 : InstructionSet::kAvx512CoreFp16;
  const std::string option =
      std::format("dnnl:{}={}", options.arithmetic->values ? kPrecision : kFpmath,
                  short_name(options.arithmetic->type));
  if (portable)
    return fail(ErrorCode::kInvalidArgument,
                "{}: a portable context runs on machines without such arithmetic; dnnl:weights={} "
                "stores weights so",
                option, short_name(options.arithmetic->type));
  if (includes(usable_instruction_set(), needed)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{}: instruction set {} has no such arithmetic, it needs {}; dnnl:weights={} stores "
              "weights so on all machines",
              option, instruction_set_name(usable_instruction_set()), instruction_set_name(needed),
              short_name(options.arithmetic->type));
}

Result<DnnlOptions> read_dnnl_options(
    std::span<const std::pair<std::string, std::string>> options) {
  DnnlOptions read;
  for (const auto& [key, value] : options) {
    if (key == kPrecision || key == kFpmath)
      CTXGEN_CHECK(read_arithmetic(key, value, read));
    else if (key == kWeights)
      CTXGEN_CHECK(read_weights_option(key, value, read));
    else
      return fail(ErrorCode::kInvalidArgument, "provider dnnl has no option \"{}\"", key);
  }
  if (!read.arithmetic || !read.arithmetic->values || read.low_bit_weights) return read;
  const DataType type = read.arithmetic->type;
  if (read.narrow_weights && read.narrow_weights != type)
    return fail(ErrorCode::kInvalidArgument, "dnnl:precision={} stores weights as {}, not as {}",
                short_name(type), short_name(type), short_name(*read.narrow_weights));
  read.narrow_weights = type;
  return read;
}

Result<DnnlChoices> read_dnnl_choices(const ChoiceTable& table) {
  DnnlChoices choices;
  for (const auto& [op, choice] : table) {
    DnnlOptions read;
    if (choice != "f32") {
      const std::size_t end = choice.find('=');
      const std::pair<std::string, std::string> option{
          choice.substr(0, end), end == choice.npos ? "" : choice.substr(end + 1)};
      auto options = read_dnnl_options({&option, 1});
      if (!options)
        return std::unexpected(
            with_context(std::move(options).error(), std::format("choice of op \"{}\"", op)));
      read = *options;
    }
    choices.insert_or_assign(op, read);
  }
  return choices;
}

}  // namespace ctxgen::onednn
