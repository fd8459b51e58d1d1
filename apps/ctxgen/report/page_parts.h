#pragma once

#include <string_view>

namespace ctxgen::cli {

// The files of page/, which the build puts into the program (embed_page.cmake).
extern const std::string_view kPageStyle;   // *.css
extern const std::string_view kPageScript;  // *.js, in the order of CMakeLists.txt

}  // namespace ctxgen::cli
