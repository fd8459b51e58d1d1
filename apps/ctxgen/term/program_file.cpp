#include "term/program_file.h"

#include <cstdlib>

namespace ctxgen::cli {

std::string program_file() {
  const char* given = std::getenv("CTXGEN_PROGRAM");
  return given != nullptr && *given == '/' ? given : "/proc/self/exe";
}

}  // namespace ctxgen::cli
