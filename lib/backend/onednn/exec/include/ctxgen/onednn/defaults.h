#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/ctxfile/program.h"

// Programs with overridable initializers: two ways to the same outputs, which an op of the kind
// "defaults" joins at the end of the program.
namespace ctxgen::onednn {

/// An input of a program, and what it holds while a caller does not override it.
struct DefaultInput {
  std::uint32_t input = 0;  // index into Program::inputs
  Hash128 content;          // of its bytes; its dims are those that the program declares
  bool operator==(const DefaultInput&) const = default;
};

/// The most inputs with defaults, and the most outputs, of a program with two ways.
inline constexpr std::size_t kMostDefaults = 2048;

/// The program that computes as `by_default` does, with its plans, while every one of `defaults` holds
/// its default, and as `general` does otherwise. Weights of both keep their blobs.
///
/// Requires  the same inputs and outputs, in number, order and type; at most kMostDefaults outputs
///           and defaults, but one of each.
[[nodiscard]] Program join_defaults(Program by_default, const Program& general,
                                    std::span<const DefaultInput> defaults);

/// The two programs that were joined.
struct SplitProgram {
  Program by_default;
  Program general;  // without plans
  std::vector<DefaultInput> defaults;
};

/// Nothing if the program has no such op.
/// Errors  kCorruptContext: the op is not the one that makes all outputs and nothing else, or its
///         parameters do not fit.
[[nodiscard]] Result<std::optional<SplitProgram>> split_defaults(const Program& program);

}  // namespace ctxgen::onednn
