#include "provider_options.h"

#include <array>
#include <charconv>

namespace ctxgen::onednn {

namespace {

constexpr std::string_view kWeights = "weights";

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

}  // namespace

std::vector<std::string> dnnl_option_names() { return {std::string(kWeights)}; }

Result<DnnlOptions> read_dnnl_options(
    std::span<const std::pair<std::string, std::string>> options) {
  DnnlOptions read;
  for (const auto& [key, value] : options) {
    if (key != kWeights)
      return fail(ErrorCode::kInvalidArgument, "provider dnnl has no option \"{}\"", key);
    if (read.low_bit_weights || read.narrow_weights)
      return fail(ErrorCode::kInvalidArgument, "option dnnl:{} is given twice", key);
    read.narrow_weights = narrow_type(value);
    if (read.narrow_weights) continue;
    read.low_bit_weights = read_weights(value);
    if (!read.low_bit_weights || value.ends_with(':'))
      return fail(
          ErrorCode::kInvalidArgument,
          "dnnl:{}={}: expected bf16 or f16, or s8 or s4, then maybe a block size (:16, :32, "
          ":64, :128 or :256) and :search, as in s4:64:search",
          key, value);
  }
  return read;
}

}  // namespace ctxgen::onednn
