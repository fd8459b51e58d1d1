#pragma once

#include <span>

#include "ctxgen/graph/graph.h"

#include "tensors/tensor_reader.h"
#include "wire/message_writer.h"

namespace ctxgen {

/// Copies messages of the source for writing, verbatim but for two things: tensors whose bytes are in
/// other files get them inline, so that the output depends on no source file, and nodes are written
/// in topological order (Model::sorted_nodes).
class Relocator {
 public:
  enum class Kind { kGraph, kNode, kAttribute, kTensor, kSparseTensor, kFunction, kTraining };

  explicit Relocator(const Model& model);
  /// As ExternalDataResolver::add_buffer.
  void add_buffer(std::string location, Blob bytes) {
    resolver_.add_buffer(std::move(location), std::move(bytes));
  }
  /// Appends the message as field `number`.
  [[nodiscard]] Status copy_field(std::uint32_t number, Kind kind,
                                  std::span<const std::byte> message, Pieces& out);
  /// Appends one field of a message of `parent` kind, given with its tag.
  [[nodiscard]] Status copy_whole(Kind parent, std::span<const std::byte> whole, Pieces& out);

 private:
  [[nodiscard]] Result<bool> has_external(Kind kind, std::span<const std::byte> message, int depth);
  [[nodiscard]] Result<bool> changes(Kind kind, std::span<const std::byte> message);
  [[nodiscard]] Result<Pieces> rewrite(Kind kind, std::span<const std::byte> message);
  [[nodiscard]] Result<Pieces> inline_tensor(std::span<const std::byte> message);

  const Model& model_;
  bool nothing_external_;
  ExternalDataResolver resolver_;
  TensorReader tensors_;
};

}  // namespace ctxgen
