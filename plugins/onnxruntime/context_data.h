#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "ctxgen/base/blob.h"

#include "ort_edge.h"

namespace ctxgen::plugin {

/// Functions with which an application keeps context binaries elsewhere than in files: in a database, encrypted.
/// Since ONNX Runtime 1.28, where they are experimental.
///
/// Lifetime  functions and their states are the application's, and live as long as sessions are made with them.
class ContextData {
 public:
  ContextData() = default;
  /// Of a session; none where the library knows no such functions.
  [[nodiscard]] static Result<ContextData> of(const OrtApis& ort, const OrtSessionOptions& session);

  [[nodiscard]] bool reads() const { return read_ != nullptr; }
  [[nodiscard]] bool writes() const { return write_ != nullptr; }
  /// The bytes that the application has under `name`, an attribute of a model; freed with the result.
  /// Requires  reads().
  /// Errors  INVALID_GRAPH: a name that is not a relative path, or leads out of its folder; IO_ERROR with the
  ///         application's text.
  [[nodiscard]] Result<Blob> read(const OrtApis& ort, const std::string& name) const;
  /// Gives the application a whole context binary. Requires  writes().
  /// Errors  IO_ERROR with the application's text.
  [[nodiscard]] Status write(const OrtApis& ort, const std::string& name,
                             std::span<const std::byte> bytes) const;

 private:
  using Read = OrtStatus* (*)(void* state, const char* name, OrtAllocator* allocator, void** buffer,
                              std::size_t* size);
  using Write = OrtStatus* (*)(void* state, const char* name, const void* buffer, std::size_t size);
  Read read_ = nullptr;
  Write write_ = nullptr;
  void* read_state_ = nullptr;
  void* write_state_ = nullptr;
};

}  // namespace ctxgen::plugin
