#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include "ctxgen/base/json.h"
#include "ctxgen/runtime/session.h"

namespace ctxgen::cli {

/// Writes the values of a run as they are made: each into a file of its own, and what each is into
/// values.json at the end.
class ValueDump {
 public:
  /// Whether a dump can be written there, without writing anything.
  /// Errors  INVALID_ARGUMENT: the folder has something in it, or is a file; IO_ERROR.
  [[nodiscard]] static Status check(const std::filesystem::path& folder);

  /// Makes the folder. Errors  those of check().
  [[nodiscard]] static Result<ValueDump> start(std::filesystem::path folder);

  /// Goes on without writing after the first error, which finish() has.
  void add(const ObservedValue& seen);

  /// Out  how many files were written, values.json apart. Errors  IO_ERROR.
  [[nodiscard]] Result<std::size_t> finish();

 private:
  explicit ValueDump(std::filesystem::path folder);
  /// "" for what is not a tensor.
  [[nodiscard]] Result<std::string> write(const ObservedValue& seen);

  std::filesystem::path folder_;
  JsonWriter json_;
  std::size_t values_ = 0, files_ = 0;
  Status status_;
};

}  // namespace ctxgen::cli
