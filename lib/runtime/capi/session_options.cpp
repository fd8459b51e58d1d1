#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/runtime/config_keys.h"

#include "c_session.h"
#include "c_status.h"

using ctxgen::Blob;
using ctxgen::ErrorCode;
using ctxgen::fail;
using ctxgen::Status;
using ctxgen::capi::change_options;
using ctxgen::capi::guarded;
using ctxgen::capi::not_null;

namespace {

Status check_range(int value, int least, int greatest, std::string_view what) {
  if (value >= least && value <= greatest) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: {} is not in {}..{}", what, value, least, greatest);
}

/// Adds bytes that the caller keeps alive, under a name of their own.
Status add_bytes(std::vector<std::pair<std::string, Blob>>& all, const char* name, const void* data,
                 size_t size) {
  CTXGEN_CHECK(not_null(name, "name"));
  if (size > 0) CTXGEN_CHECK(not_null(data, "data"));
  if (*name == '\0') return fail(ErrorCode::kInvalidArgument, "bytes without a name");
  if (std::ranges::contains(all, std::string_view(name), &std::pair<std::string, Blob>::first))
    return fail(ErrorCode::kInvalidArgument, "\"{}\" is given twice", name);
  all.emplace_back(name, Blob{nullptr, std::span(static_cast<const std::byte*>(data), size)});
  return {};
}

}  // namespace

extern "C" {

ctxgen_status* ctxgen_session_options_create(ctxgen_session_options** options) {
  return guarded("making options", [&]() -> Status {
    CTXGEN_CHECK(not_null(options, "options"));
    *options = std::make_unique<ctxgen_session_options>().release();
    return {};
  });
}

void ctxgen_session_options_release(ctxgen_session_options* options) { delete options; }

ctxgen_status* ctxgen_session_options_set_config(ctxgen_session_options* options, const char* key,
                                                 const char* value) {
  return change_options(options, [&](ctxgen_session_options& o) -> Status {
    CTXGEN_CHECK(not_null(key, "key"));
    CTXGEN_CHECK(not_null(value, "value"));
    return ctxgen::set_session_config(o.options, key, value);
  });
}

ctxgen_status* ctxgen_session_options_set_threads(ctxgen_session_options* options, int threads) {
  return change_options(options, [&](ctxgen_session_options& o) -> Status {
    CTXGEN_CHECK(check_range(threads, 0, 4096, "threads"));
    o.options.threads = threads;
    return {};
  });
}

ctxgen_status* ctxgen_session_options_set_kept_plans(ctxgen_session_options* options, int plans) {
  return change_options(options, [&](ctxgen_session_options& o) -> Status {
    CTXGEN_CHECK(check_range(plans, 1, 4096, "plans"));
    o.options.kept_plans = static_cast<std::size_t>(plans);
    return {};
  });
}

ctxgen_status* ctxgen_session_options_set_max_run_bytes(ctxgen_session_options* options,
                                                        uint64_t bytes) {
  return change_options(options, [&](ctxgen_session_options& o) -> Status {
    o.options.max_run_bytes = bytes;
    return {};
  });
}

ctxgen_status* ctxgen_session_options_set_verify_blobs(ctxgen_session_options* options,
                                                       int verify) {
  return change_options(options, [&](ctxgen_session_options& o) -> Status {
    CTXGEN_CHECK(check_range(verify, CTXGEN_VERIFY_AUTO, CTXGEN_VERIFY_NEVER, "verify blobs"));
    using ctxgen::VerifyBlobs;
    constexpr VerifyBlobs kMeanings[] = {VerifyBlobs::kAuto, VerifyBlobs::kAlways,
                                         VerifyBlobs::kNever};
    o.options.verify_blobs = kMeanings[verify];
    return {};
  });
}

ctxgen_status* ctxgen_session_options_set_weight_memory(ctxgen_session_options* options,
                                                        int memory) {
  return change_options(options, [&](ctxgen_session_options& o) -> Status {
    CTXGEN_CHECK(
        check_range(memory, CTXGEN_WEIGHTS_ON_DEMAND, CTXGEN_WEIGHTS_LOCK, "weight memory"));
    using ctxgen::WeightMemory;
    constexpr WeightMemory kMeanings[] = {WeightMemory::kOnDemand, WeightMemory::kPrefault,
                                          WeightMemory::kLock};
    o.options.weight_memory = kMeanings[memory];
    return {};
  });
}

ctxgen_status* ctxgen_session_options_add_external_data(ctxgen_session_options* options,
                                                        const char* location, const void* data,
                                                        size_t size) {
  return change_options(options, [&](ctxgen_session_options& o) {
    return add_bytes(o.options.external_buffers, location, data, size);
  });
}

ctxgen_status* ctxgen_session_options_add_bin(ctxgen_session_options* options, const char* name,
                                              const void* data, size_t size) {
  return change_options(
      options, [&](ctxgen_session_options& o) { return add_bytes(o.bins, name, data, size); });
}

ctxgen_status* ctxgen_session_options_add_state(ctxgen_session_options* options, const char* pair) {
  return change_options(options, [&](ctxgen_session_options& o) -> Status {
    CTXGEN_CHECK(not_null(pair, "pair"));
    o.options.states.emplace_back(pair);
    return {};
  });
}

}  // extern "C"
