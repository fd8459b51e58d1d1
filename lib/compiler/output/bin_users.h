#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/context_file.h"

#include "stages/provider_list.h"

namespace ctxgen {

/// The context models, besides those that a compile writes, that would no longer load if it replaced a
/// bin: they name it and all their programs are in it (else an interrupted compile left them, and there
/// is nothing to lose).
class BinUsers {
 public:
  /// Looks at the .onnx files in the folders of the bin and of the outputs, at most 1,000 of them, without
  /// reading tensors. What cannot be read is not counted. Nothing is looked at where there is no bin yet.
  [[nodiscard]] static BinUsers find(const std::filesystem::path& bin,
                                     const std::vector<std::filesystem::path>& outputs);
  [[nodiscard]] bool empty() const { return users_.empty(); }
  /// Whether the new content still has all that they need.
  /// Errors  NOT_SATISFIED naming those for which it has not, and the ways out.
  [[nodiscard]] Status check(const ContextContent& content, const CompileOptions& options) const;

 private:
  struct NeededProgram {
    std::string name, hash;  // hash: as in EPContext `notes`
  };
  struct User {
    std::filesystem::path model;
    std::vector<NeededProgram> programs;
  };
  [[nodiscard]] static std::optional<User> user_of(const std::filesystem::path& model,
                                                   const std::filesystem::path& bin,
                                                   const ContextReader& reader);

  std::filesystem::path bin_;
  std::vector<User> users_;
};

/// The users of the bin of each provider; none where CompileOptions::force or append say so.
/// `models`: the context models that are written to files.
[[nodiscard]] std::vector<BinUsers> find_bin_users(
    const ProviderList& providers, const std::vector<std::filesystem::path>& outputs,
    const std::vector<std::filesystem::path>& models, const CompileOptions& options);
/// BinUsers::check for each bin that is written; `contents` by provider, too.
[[nodiscard]] Status check_bin_users(std::span<const BinUsers> users,
                                     std::span<const std::optional<ContextContent>> contents,
                                     const CompileOptions& options);

}  // namespace ctxgen
