// libFuzzer's hooks for targets whose input is a protobuf message: most changes keep it well formed, so that they reach what
// lies behind the wire format; the others are libFuzzer's own.
#include <algorithm>
#include <cstring>

#include "wire_mutator.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

std::size_t take(const std::vector<std::uint8_t>& made, std::uint8_t* data, std::size_t max_size) {
  if (made.empty() || made.size() > max_size) return 0;
  std::memcpy(data, made.data(), made.size());
  return made.size();
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  if (seed % 8 != 0)
    if (const auto used = take(ctxgen::fuzz::mutate_message({data, size}, seed, LLVMFuzzerMutate),
                               data, max_size))
      return used;
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* one, std::size_t one_size,
                                                 const std::uint8_t* two, std::size_t two_size,
                                                 std::uint8_t* out, std::size_t max_size,
                                                 unsigned int seed) {
  return take(ctxgen::fuzz::cross_messages({one, one_size}, {two, two_size}, seed), out, max_size);
}
