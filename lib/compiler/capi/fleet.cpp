#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/compiler/bundle.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/compiler/regroup.h"
#include "ctxgen/compiler/shards.h"

#include "c_status.h"
#include "ctxgen_compiler.h"

using ctxgen::ErrorCode;
using ctxgen::fail;
using ctxgen::Result;
using ctxgen::Status;
using ctxgen::capi::guarded;
using ctxgen::capi::not_null;

namespace {

template <class Text>
Result<std::vector<Text>> texts(const char* const* list, size_t count, const char* what) {
  std::vector<Text> all;
  if (count > 0) CTXGEN_CHECK(not_null(list, what));
  for (const char* text : std::span(list, count)) {
    CTXGEN_CHECK(not_null(text, what));
    all.emplace_back(text);
  }
  return all;
}

Result<ctxgen::RegroupOptions> regroup_options(const ctxgen_regroup_options* given) {
  ctxgen::RegroupOptions options;
  options.names = ctxgen::OptionNames::kSetters;
  if (given == nullptr) return options;
  if (given->struct_size < sizeof(ctxgen_regroup_options))
    return fail(ErrorCode::kInvalidArgument, "options: struct_size is {}, expected {}",
                given->struct_size, sizeof(ctxgen_regroup_options));
  options.embed = given->embed != 0;
  if (given->bin != nullptr) options.bin = given->bin;
  if (given->external_initializers != nullptr)
    options.external_initializers = given->external_initializers;
  options.no_clobber = given->no_clobber != 0;
  options.force = given->force != 0;
  options.keep_unchanged = given->keep_unchanged != 0;
  options.dry_run = given->dry_run != 0;
  return options;
}

Result<ctxgen::BundleFormat> bundle_format(ctxgen_bundle_format format) {
  switch (format) {
    case CTXGEN_BUNDLE_OCI: return ctxgen::BundleFormat::kOciArtifact;
    case CTXGEN_BUNDLE_OCI_IMAGE: return ctxgen::BundleFormat::kOciImage;
    case CTXGEN_BUNDLE_MODEL_PACKAGE: return ctxgen::BundleFormat::kModelPackage;
  }
  return fail(ErrorCode::kInvalidArgument, "unknown format {}", static_cast<int>(format));
}

Status check_shards(size_t shards, const size_t* shard_of) {
  if (shards == 0) return fail(ErrorCode::kInvalidArgument, "shards is 0");
  return not_null(shard_of, "shard_of");
}

}  // namespace

extern "C" {

ctxgen_status* ctxgen_regroup(const char* const* models, const char* const* outputs, size_t count,
                              const ctxgen_regroup_options* options) {
  return guarded("writing context models again", [&]() -> Status {
    const auto in = CTXGEN_TRY(texts<std::filesystem::path>(models, count, "models"));
    const auto out = CTXGEN_TRY(texts<std::filesystem::path>(outputs, count, "outputs"));
    const ctxgen::RegroupOptions how = CTXGEN_TRY(regroup_options(options));
    CTXGEN_CHECK(ctxgen::regroup(in, out, how));
    return {};
  });
}

ctxgen_status* ctxgen_bundle(const char* const* models, size_t count, const char* folder,
                             ctxgen_bundle_format format, const char* tag) {
  return guarded("bundling", [&]() -> Status {
    const auto in = CTXGEN_TRY(texts<std::filesystem::path>(models, count, "models"));
    CTXGEN_CHECK(not_null(folder, "folder"));
    ctxgen::BundleOptions options;
    options.format = CTXGEN_TRY(bundle_format(format));
    if (tag != nullptr) options.tag = tag;
    CTXGEN_CHECK(ctxgen::make_bundle(in, folder, options));
    return {};
  });
}

ctxgen_status* ctxgen_shards_by_name(const char* const* names, size_t count, size_t shards,
                                     size_t* shard_of) {
  return guarded("dividing models", [&]() -> Status {
    CTXGEN_CHECK(check_shards(shards, shard_of));
    const auto all = CTXGEN_TRY(texts<std::string>(names, count, "names"));
    std::ranges::copy(ctxgen::shards_by_name(all, shards), shard_of);
    return {};
  });
}

ctxgen_status* ctxgen_shards_by_weights(const char* const* models, size_t count, size_t shards,
                                        size_t* shard_of) {
  return guarded("dividing models", [&]() -> Status {
    CTXGEN_CHECK(check_shards(shards, shard_of));
    const auto all = CTXGEN_TRY(texts<std::filesystem::path>(models, count, "models"));
    std::ranges::copy(ctxgen::shards_by_weights(all, shards), shard_of);
    return {};
  });
}

}  // extern "C"
