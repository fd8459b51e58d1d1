#include "stages/compile_target.h"

#include "ctxgen/compiler/option_table.h"
#include "ctxgen/weights/codec.h"

namespace ctxgen {

Result<CompileTarget> make_target(const CompileOptions& options, const ProviderList& providers) {
  if (options.compress_level < 0 || options.compress_level > kMaxCompressLevel)
    return fail(ErrorCode::kInvalidArgument, "compression level {}, expected {} to {}, or 0 for none",
                options.compress_level, kMinCompressLevel, kMaxCompressLevel);
  CompileTarget target{.portable = options.portable, .isas = {}};
  if (options.isas.empty()) return target;
  if (options.portable)
    return fail(ErrorCode::kInvalidArgument,
                "a portable context ({}) is for no instruction set ({})",
                option_name(options, &CompileOptions::portable),
                option_name(options, &CompileOptions::isas));
  bool compiles = false;
  for (const Provider* provider : providers.all()) {
    if (!provider->compiles()) continue;
    compiles = true;
    target.isas = CTXGEN_TRY(provider->loader()->sort_isas(options.isas));
  }
  if (!compiles)
    return fail(ErrorCode::kInvalidArgument,
                "an instruction set ({}) is given, but no provider compiles",
                option_name(options, &CompileOptions::isas));
  return target;
}

Status limit_process(const CompileTarget& target, const ProviderList& providers) {
  if (target.isas.empty()) return {};
  for (const Provider* provider : providers.all())
    if (provider->compiles())
      CTXGEN_CHECK(provider->loader()->use_isa(target.isas.front()));
  return {};
}

}  // namespace ctxgen
