#pragma once

#include <cstdint>
#include <span>

namespace ctxgen::onednn {

// Loops that keep one unit of a core busy and do nothing else, for measure_peaks(). Each takes the
// widest instructions that the process may use (usable_instruction_set()).

/// `steps` rounds of independent multiply-adds in registers. Returns the operations that they are, a
/// product and a sum each; 0, and nothing is done, where there is no such instruction.
[[nodiscard]] double multiply_add_f32(std::int64_t steps);
/// Products of u8 and s8 summed up in s32: AMX's tiles, else VNNI.
[[nodiscard]] double multiply_add_int8(std::int64_t steps);
/// Products of bf16 summed up in f32: AMX's tiles, else AVX-512 BF16.
[[nodiscard]] double multiply_add_bf16(std::int64_t steps);

/// Reads `bytes`, 64-byte aligned and a multiple of 1024 long, once. What it returns keeps the
/// compiler from leaving it out.
[[nodiscard]] std::uint64_t read_all(std::span<const std::byte> bytes);

}  // namespace ctxgen::onednn
