#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/weight_reference.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Where weights of a weightless compile are in the files of the sources.
class SourceIndex {
 public:
  /// Takes in what of `model`, read from `input`, stays in its files under `mode`.
  /// `output_folder`: of the context models; nullptr: not known.
  ///
  /// Errors  INVALID_ARGUMENT: weights in memory, no folder, a file outside it. IO_ERROR.
  [[nodiscard]] Status add(const Model& model, const ModelInput& input, WeightlessMode mode,
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
