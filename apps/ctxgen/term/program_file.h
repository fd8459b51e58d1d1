#pragma once

#include <string>

namespace ctxgen::cli {

/// The file to start for another process of this program: CTXGEN_PROGRAM, which the starter of the relocatable archive sets because
/// the kernel knows that process as the dynamic loader; else this process's own.
[[nodiscard]] std::string program_file();

}  // namespace ctxgen::cli
