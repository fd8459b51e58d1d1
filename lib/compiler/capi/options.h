#pragma once

#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/config_keys.h"
#include "ctxgen_compiler.h"

/// What the setters said, and the keys: they are compared when a compiler takes them.
struct ctxgen_compile_options {
  ctxgen::CompileOptions options;
  std::vector<ctxgen::ConfigEntry> config;
};
