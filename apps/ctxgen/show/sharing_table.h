#pragma once

#include <span>
#include <string>

#include "ctxgen/base/json.h"
#include "ctxgen/compiler/build_counts.h"
#include "ctxgen/ctxfile/sharing.h"

namespace ctxgen::cli {

/// Who shares how much with whom: a line for each set of users, the first few unless `verbose`.
[[nodiscard]] std::string sharing_text(std::span<const SharedBlobs> sharing, bool verbose);
/// Entries with users, blobs, bytes, saved_bytes.
void write_sharing(JsonWriter& json, std::span<const SharedBlobs> sharing);

/// Weights that are stored in several layouts.
[[nodiscard]] std::string split_text(std::span<const SplitWeights> split);
/// Entries with programs, weights, bytes, extra_bytes.
void write_split(JsonWriter& json, std::span<const SplitWeights> split);

}  // namespace ctxgen::cli
