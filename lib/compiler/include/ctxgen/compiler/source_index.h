#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/weight_reference.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Weights that stay where the source has them (ONNX Runtime's ep.enable_weightless_mode): context
/// models then need those files next to them, and pack weights when they are loaded.
enum class WeightlessMode { kNone = 0, kExternalOnly = 1, kAll = 2 };

/// `file` as a model in `model_folder` refers to it: a relative path that stays in the folder.
/// Errors  INVALID_ARGUMENT if `file` is elsewhere.
[[nodiscard]] Result<std::string> file_reference(const std::filesystem::path& model_folder,
                                                 const std::filesystem::path& file);

/// Where weights of a weightless compile are in the files of the sources.
class SourceIndex {
 public:
  /// How a source was read.
  struct Source {
    std::string_view name;       // for messages
    std::filesystem::path path;  // empty: from memory
    bool external_data_in_memory = false;
  };
  /// Takes in what of `model` stays in its files under `mode`.
  /// `output_folder`: of the context models; nullptr: not known.
  ///
  /// Errors  INVALID_ARGUMENT: weights in memory, no folder, a file outside it. IO_ERROR.
  [[nodiscard]] Status add(const Model& model, const Source& source, WeightlessMode mode,
                           const std::filesystem::path* output_folder);
  /// The files, as context models refer to them, sorted.
  [[nodiscard]] std::vector<std::string> files() const;
  /// Whether these very bytes (not equal ones) are in a file.
  [[nodiscard]] bool holds(std::span<const std::byte> bytes) const {
    return find(bytes) != nullptr;
  }
  /// Nothing for bytes that are in no file.
  /// `hash`: of the bytes.
  [[nodiscard]] std::optional<WeightReference> reference(std::span<const std::byte> bytes,
                                                         Hash128 hash) const;

 private:
  struct Part {  // of a mapped file
    std::uint64_t size = 0;
    std::uint64_t offset = 0;
    const std::string* file = nullptr;
  };
  [[nodiscard]] const std::pair<const std::uintptr_t, Part>* find(
      std::span<const std::byte> bytes) const;
  [[nodiscard]] Result<const std::string*> add_file(const std::filesystem::path& path,
                                                    const std::filesystem::path* output_folder);

  std::map<std::string, std::uint64_t> files_;  // by reference: bytes
  std::map<std::uintptr_t, Part> parts_;        // by address
};

}  // namespace ctxgen
