#include "huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <set>

#include "ctxgen/base/working_memory.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace ctxgen::plugin {
namespace {

constexpr std::size_t kLeastBytes = 64 << 10;  // smaller ones are few bytes in all

using Pages = std::set<std::uintptr_t>;  // neighbours lie in one

void add(const Blob& blob, Pages& pages) {
  if (blob.bytes.size() < kLeastBytes) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(blob.bytes.data());
  const std::uintptr_t last = begin + blob.bytes.size() - 1;
  for (std::uintptr_t page = begin / kHugePageBytes; page <= last / kHugePageBytes; ++page)
    pages.insert(page);
}

/// Those that an op takes as operands.
void add(const Program& program, const ProgramOp& op, const ContextContent& content, Pages& pages) {
  for (const Operand& operand : op.inputs)
    if (operand.kind == Operand::Kind::kWeight)
      for (const PackedWeight& packed : program.weights[operand.index].packed)
        add(content.blobs[packed.blob.bin_index().value], pages);
}

}  // namespace

void use_huge_pages(const ContextContent& content) {
  Pages pages;
  for (const Program& program : content.programs)
    for (const ProgramOp& op : program.ops)
      if (op.kind == "low_bit_matmul" || op.kind == "byte_matmul") add(program, op, content, pages);
  for (const std::uintptr_t page : pages)
    (void)::madvise(reinterpret_cast<void*>(page * kHugePageBytes), kHugePageBytes, MADV_COLLAPSE);
}

}  // namespace ctxgen::plugin
