#include <limits>

#include "ctxgen/onednn/exec.h"
#include "executable.h"
#include "machine.h"

namespace ctxgen::onednn {
namespace {

class OnednnLoader final : public ProgramLoader {
 public:
  [[nodiscard]] std::string_view source() const override { return kSource; }

  [[nodiscard]] Result<std::unique_ptr<Executable>> load(
      const Program& program, const BlobSource& blobs, const LoadOptions& options,
      LoadStatistics* statistics) const override {
    if (program.source != kSource)
      return fail(ErrorCode::kCorruptContext, "program \"{}\": source \"{}\", expected \"{}\"",
                  program.name, program.source, kSource);
    CTXGEN_CHECK(validate(program, std::numeric_limits<std::uint64_t>::max()));
    LoadOptions resolved = options;
    if (resolved.threads <= 0) resolved.threads = default_threads();
    return CTXGEN_TRY(OnednnExecutable::load(program, blobs, resolved, statistics));
  }

  [[nodiscard]] std::string fingerprint(int threads) const override {
    return make_fingerprint(threads);
  }
  [[nodiscard]] CompatibilityVerdict compatibility(std::string_view fingerprint,
                                                   int threads) const override {
    return compare_fingerprint(fingerprint, threads);
  }
};

}  // namespace

const ProgramLoader& loader() {
  static const OnednnLoader instance;
  return instance;
}

}  // namespace ctxgen::onednn
