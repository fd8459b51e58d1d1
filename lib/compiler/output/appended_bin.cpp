#include "output/appended_bin.h"

#include <format>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/base/version.h"
#include "ctxgen/compiler/option_table.h"

#include "output/target_fields.h"

namespace ctxgen {
namespace {

/// "it is for isa avx2, this compile for isa avx512_core: add --isa avx2".
std::string differences(std::string_view found, std::string_view expected,
                        const CompileOptions& options) {
  const TargetDifference difference = difference_of(found, expected);
  const std::string& isa = difference.found_isa;
  const std::string advice =
      isa.empty()         ? "; compile the models of the bin together again"
      : isa == "portable" ? "; add " + option_name(options, &CompileOptions::portable)
                          : "; add " + option_name(options, &CompileOptions::isas) + " " + isa;
  return std::format("it is for {}, this compile for {}{}", difference.found, difference.expected,
                     advice);
}

}  // namespace

Result<AppendedBin> AppendedBin::open(const std::filesystem::path& path,
                                      const std::function<bool()>& cancelled) {
  AppendedBin bin;
  bin.lock_ = CTXGEN_TRY(lock_path(path, {.cancelled = cancelled}));
  if (bin.lock_ == nullptr)
    return fail(ErrorCode::kIoError,
                "\"{}\" cannot be added to: its file system has no locks for files", path.string());
  const Blob file = CTXGEN_TRY(map_file(path));
  bin.reader_ = std::make_shared<const ContextReader>(
      CTXGEN_TRY(ContextReader::open(file, path.filename().string(), VerifyBlobs::kAlways)));
  return bin;
}

Status check_append_options(const CompileOptions& options) {
  if (options.append.empty()) return {};
  const auto name = [&](OptionSlot slot) { return option_name(options, slot); };
  if (options.embed)
    return fail(ErrorCode::kInvalidArgument,
                "an embedded context ({}) cannot be added to a bin ({})",
                name(&CompileOptions::embed), name(&CompileOptions::append));
  if (options.force)
    return fail(ErrorCode::kInvalidArgument,
                "{} cannot be combined with {}: one replaces a bin, the other adds to it",
                name(&CompileOptions::force), name(&CompileOptions::append));
  if (!options.bin.empty() && options.bin != options.append)
    return fail(ErrorCode::kInvalidArgument,
                "the bin \"{}\" ({}) is not the bin to add to, \"{}\" ({})", options.bin.string(),
                name(&CompileOptions::bin), options.append.string(), name(&CompileOptions::append));
  return {};
}

Status check_same_target(const ContextReader& reader, std::string_view fingerprint,
                         const CompileOptions& options) {
  const std::string producer = "ctxgen " CTXGEN_VERSION_STRING;
  if (reader.info().producer != producer)
    return fail(ErrorCode::kVersionMismatch,
                "the bin to add to was written by \"{}\", expected \"{}\"", reader.info().producer,
                producer);
  if (reader.info().fingerprint == fingerprint) return {};
  return fail(ErrorCode::kVersionMismatch, "the bin to add to was made for another target: {}",
              differences(reader.info().fingerprint, fingerprint, options));
}

}  // namespace ctxgen
