#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "ctxgen/base/atomic_folder.h"
#include "ctxgen/base/boundary.h"
#include "ctxgen/base/stopwatch.h"
#include "ctxgen/compiler/bundle.h"
#include "ctxgen/partition/provider.h"

#include "bundle/bundle_content.h"
#include "bundle/model_package.h"
#include "bundle/oci_layout.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// As registries have them (OCI distribution-spec 1.1, "Pulling manifests").
Status check_tag(std::string_view tag) {
  constexpr std::size_t kMaxBytes = 128;
  const bool fits =
      !tag.empty() && tag.size() <= kMaxBytes && is_word(tag.front()) &&
      std::ranges::all_of(tag, [](char c) { return is_word(c) || c == '.' || c == '-'; });
  if (fits) return {};
  return fail(ErrorCode::kInvalidArgument,
              "tag \"{}\" must be letters, digits, \"_\", \".\" and \"-\", at most {} of them, and "
              "not begin with \".\" or \"-\"",
              tag, kMaxBytes);
}

Result<BundleReport> run(const std::vector<fs::path>& models, const fs::path& target,
                         const BundleOptions& options) {
  if (models.empty()) return fail(ErrorCode::kInvalidArgument, "no models to bundle");
  CTXGEN_CHECK(check_tag(options.tag));
  AtomicFolder folder = CTXGEN_TRY(AtomicFolder::create(target));  // before any work
  const ProviderList providers = CTXGEN_TRY(ProviderList::make({}));
  const BundleContent content =
      CTXGEN_TRY(read_bundle_content(models, providers, options.cancelled));
  BundleReport report;
  CTXGEN_CHECK(options.format == BundleFormat::kModelPackage
                   ? write_model_package(content, options, folder, report)
                   : write_oci_layout(content, options, folder, report));
  for (const SourceFolder& source : content.folders)
    for (const SourceFile& file : source.files) report.files_read.push_back(file.path);
  CTXGEN_CHECK(folder.commit());
  return report;
}

}  // namespace

Result<BundleReport> make_bundle(const std::vector<fs::path>& models, const fs::path& folder,
                                 const BundleOptions& options) {
  return at_boundary("bundling", [&]() -> Result<BundleReport> {
    const auto start = std::chrono::steady_clock::now();
    BundleReport report = CTXGEN_TRY(run(models, folder, options));
    report.seconds = seconds_since(start);
    return report;
  });
}

}  // namespace ctxgen
