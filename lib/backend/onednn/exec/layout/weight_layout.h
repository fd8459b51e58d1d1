#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/builder.h"

namespace ctxgen::onednn {

/// Numbers of packings in headers of context binaries (docs/format.md, "Needs"). oneDNN's format tags
/// have their own numbers there, own kernels get theirs from kOwnPackings on.
inline constexpr std::uint16_t kPlainPacking = 1;  // ONNX's order, in the bin or in a source's file
inline constexpr std::uint16_t kOwnPackings = 0x8000;
/// Matrices of bytes with limits (ctxgen/kernels/byte_product.h), which are stored as plain bytes: ops say so.
inline constexpr std::uint16_t kLimitedBytes = kOwnPackings;

/// The packing of a stored layout, known or not; 0 where it is too short to have one.
[[nodiscard]] std::uint16_t packing_of(std::span<const std::byte> layout);
[[nodiscard]] bool knows_packing(std::uint16_t packing);

/// A weight's layout as stored in PackedWeight::layout: the number of the oneDNN format tag, the
/// dims that the primitive sees, and whether the tensor's last two dims are swapped in them. A tag
/// and dims are checked by oneDNN when the descriptor is made from them; the library's own blobs
/// are images of its structs and cannot be checked.
///
/// Nothing if no tag describes `md` (compensation, odd strides): such weights are stored plain and
/// repacked at load.
[[nodiscard]] std::optional<std::vector<std::byte>> encode_layout(const dnnl::memory::desc& md,
                                                                  bool transposed);

/// Errors  kCorruptContext; kVersionMismatch of a packing that this release does not know. An empty
/// layout is the plain form.
[[nodiscard]] Result<WeightForm> decode_layout(std::span<const std::byte> layout,
                                               const ProgramWeight& weight);

/// The stored forms of every weight. Errors  kCorruptContext naming the weight.
[[nodiscard]] Result<WeightForms> decode_forms(const Program& program);

/// The form that a stored plan chose for this op's weight, if it has the dims of `logical`; none for
/// kNone, a value.
[[nodiscard]] std::optional<dnnl::memory::desc> chosen_form(const NodeBuilder& builder,
                                                            std::uint32_t weight,
                                                            const dnnl::memory::desc& logical,
                                                            bool transposed);

/// What a tuning table wants for the node's weight, if it is a packing of these dims. None but while packing.
[[nodiscard]] std::optional<dnnl::memory::desc> tuned_packing(const NodeBuilder& builder,
                                                              const Dims& dims);

using TakesPacking = bool(const dnnl::memory::desc&);
/// The first packing in which the file has the op's weight, by another release or for other machines,
/// with these dims, and which `takes` accepts. None while packing, and for a value.
[[nodiscard]] std::optional<dnnl::memory::desc> stored_packing(const NodeBuilder& builder,
                                                               std::uint32_t weight,
                                                               const Dims& dims, bool transposed,
                                                               TakesPacking* takes);
/// The stored form of its weight that is what `use` wants, as an index into `forms`: those of the
/// weight. None for the plain one, and where there is no such form.
[[nodiscard]] std::optional<std::size_t> form_of_use(std::span<const WeightForm> forms,
                                                     const PackedUse& use);
[[nodiscard]] bool has_plain_form(std::span<const WeightForm> forms);
/// Whether the file has the op's weight in any packing.
[[nodiscard]] bool is_stored_packed(const NodeBuilder& builder, std::uint32_t weight);

/// Dense row-major strides of `dims`, with the last two swapped for a transposed tensor.
[[nodiscard]] dnnl::memory::desc logical_md(const Dims& dims, bool transposed,
                                            DataType type = DataType::kFloat);

}  // namespace ctxgen::onednn
