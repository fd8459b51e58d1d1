#pragma once

#include <optional>

#include "ctxgen/graph/graph.h"
#include "ctxgen/weights/external_data.h"

namespace ctxgen {

/// Where the file says that an initializer's bytes are outside the model; nothing for one whose
/// bytes are inline, sparse, or made by ctxgen. Requires  `value` is one of `model` as it was read.
[[nodiscard]] Result<std::optional<ExternalDataRef>> external_place(const Model& model,
                                                                    const Value& value);

}  // namespace ctxgen
