# What holds for every target: language, warnings, sanitizers, linker, compiler cache, where outputs go.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR "ctxgen needs g++ 14 or later; this is ${CMAKE_CXX_COMPILER_VERSION}.")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR "ctxgen needs clang 19 or later; this is ${CMAKE_CXX_COMPILER_VERSION}.")
endif()

add_compile_options("-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=") # __FILE__ does not tell where the clone lies

# Warnings of our own targets only (ctxgen_options); errors in the presets.
add_library(ctxgen_options INTERFACE)
target_compile_features(ctxgen_options INTERFACE cxx_std_23)
target_compile_options(ctxgen_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wsuggest-override -Wextra-semi -Wundef
  -Wformat=2 -Wimplicit-fallthrough -Wvla -Wunused)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(ctxgen_options INTERFACE
    -Wduplicated-cond -Wduplicated-branches -Wlogical-op
    # These come out of the optimiser and are often wrong about std::expected and std::variant: shown, but no errors.
    -Wno-error=maybe-uninitialized -Wno-error=array-bounds -Wno-error=stringop-overflow -Wno-error=stringop-overread
    -Wno-error=free-nonheap-object -Wno-error=restrict -Wno-error=dangling-reference)
endif()

set(CTXGEN_SANITIZE "" CACHE STRING "Sanitizers for everything that is built, a list for -fsanitize=")
if(CTXGEN_SANITIZE)
  list(JOIN CTXGEN_SANITIZE "," sanitizers)
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  if("undefined" IN_LIST CTXGEN_SANITIZE)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized) # instrumentation makes it guess
  endif()
  add_link_options(-fsanitize=${sanitizers})
endif()

# Takes a third of the time. Off by default: a missing #include stays unnoticed.
option(CTXGEN_FAST_BUILD "Compile several files together (ctxgen_compile_together) and the core of std::format once" OFF)
if(CTXGEN_FAST_BUILD)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(ctxgen_options INTERFACE -Wno-subobject-linkage) # takes the files compiled together for headers
  endif()
  include(CheckCXXSourceCompiles)
  file(READ "${PROJECT_SOURCE_DIR}/cmake/std_format.h" ctxgen_std_format)
  string(REPLACE "#pragma once" "" ctxgen_std_format "${ctxgen_std_format}")
  set(CMAKE_REQUIRED_FLAGS "-std=c++23")
  check_cxx_source_compiles("${ctxgen_std_format}\nint main() { return std::format(\"{}\", 1) != \"1\"; }" CTXGEN_STD_FORMAT)
  unset(CMAKE_REQUIRED_FLAGS)
  if(CTXGEN_STD_FORMAT) # another standard library, or other names
    target_compile_options(ctxgen_options INTERFACE "SHELL:-include ${PROJECT_SOURCE_DIR}/cmake/std_format.h")
  endif()
endif()

find_program(CTXGEN_CCACHE ccache)
if(CTXGEN_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CTXGEN_CCACHE}")
endif()

find_program(CTXGEN_MOLD mold)
if(CTXGEN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
