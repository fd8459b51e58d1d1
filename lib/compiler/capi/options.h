#pragma once

#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/config_keys.h"
#include "ctxgen/compiler/option_table.h"

#include "ctxgen_compiler.h"

/// What the setters said, and the keys: they are compared when a compiler takes them.
struct ctxgen_compile_options {
  ctxgen::CompileOptions options = ctxgen::options_named(ctxgen::OptionNames::kSetters);
  std::vector<ctxgen::ConfigEntry> config;
};
