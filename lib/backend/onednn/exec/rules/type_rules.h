#pragma once

#include <initializer_list>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"

#include "kinds/kind_rows.h"

namespace ctxgen::onednn {

using Types = std::initializer_list<DataType>;
/// What own loops read and write besides f32: rounded or quantised.
inline constexpr Types kStoredTypes = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16,
                                       DataType::kUint8, DataType::kInt8};
/// Real numbers, of products and between them.
inline constexpr Types kFloatTypes = {DataType::kFloat, DataType::kBfloat16, DataType::kFloat16};

[[nodiscard]] DataType operand_type(const Program& program, const Operand& operand);

/// Whether the operand, if there is one, has one of these types. Errors  UNSUPPORTED.
[[nodiscard]] Status expect_type(const Program& program, const ProgramOp& op,
                                 const Operand& operand, Types types);

/// f32 everywhere.
TypeRule check_f32_types;
/// Kinds that only move elements: any stored type, the same for source and results; without
/// post-ops where it is not f32. Further inputs are read for their sizes only.
TypeRule check_movable_types;
/// Pools: the same over f32 and bytes.
TypeRule check_pool_types;
/// Products of real numbers: f32, but for a constant second input, which may be stored as bf16 or f16; or
/// two operands of bf16 or f16, multiplied so, and a result of their type or f32. The bias is f32.
TypeRule check_float_product_types;
/// A source and a result of real numbers, all else in f32.
TypeRule check_scaled_types;
/// Products of 8-bit integers.
TypeRule check_product_types;

/// The types of every op, weight and value of a program. Programs come from files: what follows
/// relies on this for the widths of everything it reads.
///
/// Errors  UNSUPPORTED naming the op or value, the type, and what is expected.
[[nodiscard]] Status check_types(const Program& program);

}  // namespace ctxgen::onednn
