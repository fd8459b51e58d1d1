#include "kernel/string_memory.h"

#include <algorithm>

#include "ctxgen/base/checked.h"

namespace ctxgen::cpu {

std::uint64_t longest_of(std::span<const std::string> texts) {
  std::uint64_t longest = 0;
  for (const std::string& text : texts) longest = std::max<std::uint64_t>(longest, text.size());
  return longest;
}

std::uint64_t bytes_of_copies(std::span<const std::string> texts) {
  std::uint64_t bytes = 0;
  for (const std::string& text : texts) bytes += sizeof(std::string) + text.size();
  return bytes;
}

std::optional<std::uint64_t> bytes_of_strings(const Dims& dims, std::uint64_t longest_bytes) {
  const auto count = checked_element_count(dims);
  return count ? checked_mul(*count, sizeof(std::string) + longest_bytes) : std::nullopt;
}

Status check_strings(const KernelContext& context, const Dims& dims, std::uint64_t longest_bytes) {
  const auto memory = context.memory();
  if (!memory) return {};
  return memory->check(bytes_of_strings(dims, longest_bytes).value_or(UINT64_MAX));
}

}  // namespace ctxgen::cpu
