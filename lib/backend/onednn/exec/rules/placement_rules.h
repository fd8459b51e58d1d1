#pragma once

#include "kinds/kind_rows.h"
#include "layout/placement.h"

// Placements that kinds of several families share.
namespace ctxgen::onednn {

/// Source and result channels-last.
PlaceRule place_spatial;
/// A convolution of either direction: channels-last, its weights packed, a sum in place if it can.
PlaceRule place_conv;
/// The same with weights that are a value.
PlaceRule place_computed_conv;
/// All inputs and the result plain and dense.
PlaceRule place_plain;
/// All inputs that there are and any number of results plain and dense, each in memory of its own.
PlaceRule place_dense;
/// In the source's layout; vectors plain. Overwrites a source that dies.
PlaceRule place_eltwise;
/// The same for loops that walk the growing buffer of a concatenation as it is.
PlaceRule place_walking;
/// Reads any strides; a result of the same rank keeps the layout.
PlaceRule place_index;

/// The slot of an optional vector input; kNone where it is absent.
[[nodiscard]] SlotId place_vector(Placement& pass, std::uint32_t op, std::size_t input);
/// Channels-last if one of the operands that are as large as the result is.
[[nodiscard]] Layout joint_layout(const Placement& pass, std::uint32_t op);

}  // namespace ctxgen::onednn
