#pragma once

#include <string>

#include "ctxgen/base/json.h"
#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen::cli {

/// What `inspect` tells of a context binary: programs, plans, blobs, and which blobs are shared.
[[nodiscard]] std::string context_text(const std::string& name, const ContextReader& reader,
                                       bool verbose);
void write_context(JsonWriter& json, const std::string& name, const ContextReader& reader);

}  // namespace ctxgen::cli
