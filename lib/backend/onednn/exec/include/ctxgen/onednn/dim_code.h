#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/function_ref.h"
#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"

namespace ctxgen::onednn {

/// Numbers that an op computes from the dims of its inputs when a plan is made: what the ONNX node
/// took from Shape, Gather, Concat and their like. Such nodes do not become ops of a program.
///
/// Code  a parameter of instructions in postfix order, three numbers each: word, a, b. What is on
///       the stack at the end is the list. The words are part of the context binary.
enum class DimWord : std::int64_t {
  kNumber = 0,  // pushes a
  kDim = 1,     // pushes dim b of input a
  kAdd = 2,     // these replace the two uppermost by one number
  kSub = 3,
  kMul = 4,
  kDiv = 5,  // towards zero, as ONNX divides integers
};

using DimInstruction = std::array<std::int64_t, 3>;

/// In       input_dims: of the op's inputs, in order.
/// Errors   INVALID_GRAPH (no such input or dim, division by 0, overflow, a stack that is empty or
///          higher than 64), each naming `what`.
[[nodiscard]] Result<std::vector<std::int64_t>> run_dim_code(std::span<const std::int64_t> code,
                                                             std::span<const Dims> input_dims,
                                                             std::string_view what);

/// The same for code that leaves one number, in each run: takes no memory. `dims_of` gives the dims of an
/// input of the op, or null.
/// Errors   as above; INVALID_GRAPH if it leaves another count of numbers.
[[nodiscard]] Result<std::int64_t> run_dim_code_for_one(
    std::span<const std::int64_t> code, FunctionRef<const Dims*(std::int64_t)> dims_of,
    std::string_view what);

}  // namespace ctxgen::onednn
