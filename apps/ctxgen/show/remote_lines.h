#pragma once

#include <string>

#include "ctxgen/base/json.h"
#include "ctxgen/remote/remote_counts.h"

namespace ctxgen::cli {

/// What a remote cache did for a compile, as an object and as a line.
void write_remote(JsonWriter& json, const RemoteCounts& counts);
[[nodiscard]] std::string remote_text(const RemoteCounts& counts);

}  // namespace ctxgen::cli
