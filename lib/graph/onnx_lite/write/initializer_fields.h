#pragma once

#include <optional>
#include <string_view>

#include "ctxgen/graph/graph.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "wire/message_writer.h"

namespace ctxgen {

/// Whether an initializer's bytes are worth an aligned place in the model file.
[[nodiscard]] bool is_aligned_when_written(const Value& value);

/// The TensorProto of a big initializer, laid out so that its bytes are aligned in the file: readers
/// use them where they are mapped. The room comes from leading zeros of data_type; parsed, the
/// tensor is the source's. Nothing if it has no raw data.
///
/// In  offset: in the file, of the field's tag; the field is to be written wide.
[[nodiscard]] Result<std::optional<Pieces>> aligned_tensor(const Model& model, const Value& value,
                                                           std::uint64_t offset);

/// The TensorProto of an initializer whose bytes are in another file: `location`, or the one that
/// `place` names.
[[nodiscard]] Result<Pieces> external_tensor(const Model& model, const Value& value,
                                             std::string_view location, const ExternalPlace& place);

}  // namespace ctxgen
