#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/compiler/compile.h"

namespace ctxgen {

/// The providers of one compile, in priority order, "cpu" last.
class ProviderList {
 public:
  /// Errors  INVALID_ARGUMENT: an unknown name, one that is there twice, an option of a provider
  ///         that is not in the list or that the provider does not know.
  [[nodiscard]] static Result<ProviderList> make(const CompileOptions& options);

  [[nodiscard]] std::span<const Provider* const> all() const { return all_; }
  [[nodiscard]] std::span<const std::pair<std::string, std::string>> options(std::size_t p) const {
    return options_[p];
  }
  /// Index of the provider whose source is `source`, or -1.
  [[nodiscard]] int find_source(std::string_view source) const;

 private:
  std::vector<std::unique_ptr<Provider>> owned_;
  std::vector<const Provider*> all_;
  std::vector<std::vector<std::pair<std::string, std::string>>> options_;
};

}  // namespace ctxgen
