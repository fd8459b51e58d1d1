#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/spill_file.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/weights/external_data.h"

namespace ctxgen {

/// A small sparse tensor may declare a huge dense form: a gibibyte in all is enough for any model.
inline constexpr std::uint64_t kMaxDensifiedBytes = std::uint64_t{1} << 30;

struct NamedTensor {
  std::string name;
  Tensor tensor;
  bool is_external = false;  // its bytes came from another file
};

/// One entry of TensorProto.external_data; keys that nothing here needs are passed over.
[[nodiscard]] Status read_external_entry(std::span<const std::byte> message, ExternalDataRef& ref);

/// Decodes TensorProto and SparseTensorProto. raw_data, one packed run of float_data or
/// double_data, and external data are referenced in place; everything else goes to new memory,
/// whose size is bounded by the bytes that the message really has.
class TensorReader {
 public:
  /// `source` owns the messages; `resolver` may be nullptr: external data is an error then. `spill`
  /// keeps what is decoded (null: memory does).
  TensorReader(const Blob& source, ExternalDataResolver* resolver, SpillFile* spill = nullptr,
               std::uint64_t max_densified_bytes = kMaxDensifiedBytes)
      : owner_(source.owner),
        resolver_(resolver),
        spill_(spill),
        max_densified_bytes_(max_densified_bytes) {}

  /// Errors  INVALID_GRAPH (data does not fit dims and type), UNSUPPORTED (rank, type, segments),
  ///         RESOURCE_LIMIT, and those of the resolver and of the spill file.
  [[nodiscard]] Result<NamedTensor> read(std::span<const std::byte> message);
  /// The dense form; all dense forms that one reader makes are limited together.
  [[nodiscard]] Result<NamedTensor> read_sparse(std::span<const std::byte> message);

 private:
  struct Parts;
  [[nodiscard]] Result<Parts> parse(std::span<const std::byte> message) const;
  [[nodiscard]] Result<Tensor> external(const Parts& parts);
  [[nodiscard]] Result<Tensor> raw(const Parts& parts) const;
  [[nodiscard]] Result<Tensor> typed(const Parts& parts, std::span<const std::byte> message) const;

  std::shared_ptr<const void> owner_;
  ExternalDataResolver* resolver_;
  SpillFile* spill_;
  std::uint64_t max_densified_bytes_;
  std::uint64_t densified_bytes_ = 0;
};

}  // namespace ctxgen
