#pragma once

#include <cstddef>

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Completes shapes of the main graph that follow from others and from constants (folded ones, too), for models that come
/// with types whose maker did not know the constants. What is known stays; what a rule here does not say stays unknown.
/// The rules are ONNX's, for operators that stand around computed shapes, in domain "" only.
///
/// Returns  how many types changed.
std::size_t complete_shapes(Model& model);

}  // namespace ctxgen
