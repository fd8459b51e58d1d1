# Every package that ctxgen links, found in this one place; installed too, where ctxgenConfig.cmake includes it.
#
#   DNNL::dnnl               oneDNN
#   ONNX::onnx               message classes, schemas, checker, shape inference (brings ONNX_ML, ONNX_NAMESPACE)
#   protobuf::libprotobuf-lite   always beside ONNX::onnx, whose config does not name it. The shared library: Debian's archive
#                            is not position-independent (thread-local storage), so no plugin can hold it.
#   OpenMP::OpenMP_CXX       always GNU's runtime, the one that oneDNN runs on
#   spdlog::spdlog  zstd::libzstd  xxHash::xxhash  CLI11::CLI11
#   CURL::libcurl  OpenSSL::Crypto   the remote cache, signatures
#   ctxgen_highway_headers   Highway's, for lib/kernels
#   ctxgen_nlohmann_json_headers   JSON for Modern C++, for lib/base
#   libzip::zip              .npz files; its own config wants programs that Debian packages apart
#   ctxgen_onnxruntime_headers   ONNX Runtime's headers, if CTXGEN_HAVE_ONNXRUNTIME
#   ctxgen_node_headers      Node.js's headers, if they are there
#   GTest::gtest  GTest::gtest_main  GTest::gmock   for the tests

set(CTXGEN_REMEDY "./dev build has it; the packages are listed in packages.txt")

macro(ctxgen_need what found version minimum)
  if(NOT "${found}")
    message(FATAL_ERROR "ctxgen needs ${what} ${minimum} or later, which was not found. ${CTXGEN_REMEDY}.")
  elseif("${version}" VERSION_LESS "${minimum}")
    message(FATAL_ERROR "ctxgen needs ${what} ${minimum} or later; found ${version}. ${CTXGEN_REMEDY}.")
  endif()
endmacro()

find_package(dnnl CONFIG QUIET)
ctxgen_need(oneDNN "${dnnl_FOUND}" "${dnnl_VERSION}" 3.7)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_package(OpenMP QUIET COMPONENTS CXX)
  ctxgen_need(OpenMP "${OpenMP_CXX_FOUND}" "${OpenMP_CXX_VERSION}" 4.5)
elseif(NOT TARGET OpenMP::OpenMP_CXX)
  # clang (the fuzz preset) would bring a second runtime; there the calls go to GNU's and the pragmas do nothing.
  execute_process(COMMAND g++ -print-file-name=libgomp.so OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND g++ -print-file-name=include OUTPUT_VARIABLE gomp_include OUTPUT_STRIP_TRAILING_WHITESPACE)
  add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED GLOBAL)
  target_compile_options(OpenMP::OpenMP_CXX INTERFACE "SHELL:-idirafter ${gomp_include}" -Wno-unknown-pragmas)
  target_link_libraries(OpenMP::OpenMP_CXX INTERFACE "${gomp}")
endif()

# Debian's protobuf has no CMake config; the onnx package's config neither finds nor links it.
find_package(Protobuf MODULE QUIET)
ctxgen_need(protobuf "${Protobuf_FOUND}" "${Protobuf_VERSION}" 3.21)
find_package(ONNX CONFIG QUIET)
ctxgen_need(onnx "${ONNX_FOUND}" "${ONNX_VERSION}" 1.17)

find_package(spdlog CONFIG QUIET)
ctxgen_need(spdlog "${spdlog_FOUND}" "${spdlog_VERSION}" 1.12)
find_package(CLI11 CONFIG QUIET)
ctxgen_need(CLI11 "${CLI11_FOUND}" "${CLI11_VERSION}" 2.4)

find_package(zstd CONFIG QUIET)
ctxgen_need(zstd "${zstd_FOUND}" "${zstd_VERSION}" 1.5)

find_package(CURL QUIET)
ctxgen_need(libcurl "${CURL_FOUND}" "${CURL_VERSION_STRING}" 7.85)
find_package(OpenSSL QUIET COMPONENTS Crypto)
ctxgen_need(OpenSSL "${OPENSSL_FOUND}" "${OPENSSL_VERSION}" 3.0)

find_package(PkgConfig QUIET) # xxHash comes without a CMake config
ctxgen_need(pkg-config "${PkgConfig_FOUND}" "${PKG_CONFIG_VERSION_STRING}" 0.29)
pkg_check_modules(ctxgen_xxhash QUIET IMPORTED_TARGET GLOBAL libxxhash)
ctxgen_need(xxHash "${ctxgen_xxhash_FOUND}" "${ctxgen_xxhash_VERSION}" 0.8)
if(NOT TARGET xxHash::xxhash)
  add_library(xxHash::xxhash INTERFACE IMPORTED GLOBAL)
  target_link_libraries(xxHash::xxhash INTERFACE PkgConfig::ctxgen_xxhash)
endif()

# Highway: headers only. Its CMake config would have users of the installed libraries find the package.
pkg_check_modules(ctxgen_highway QUIET libhwy)
ctxgen_need(Highway "${ctxgen_highway_FOUND}" "${ctxgen_highway_VERSION}" 1.0)
add_library(ctxgen_highway_headers INTERFACE IMPORTED GLOBAL)
target_include_directories(ctxgen_highway_headers SYSTEM INTERFACE ${ctxgen_highway_INCLUDE_DIRS})

# JSON for Modern C++: headers only, as Highway.
pkg_check_modules(ctxgen_nlohmann_json QUIET nlohmann_json)
ctxgen_need("JSON for Modern C++" "${ctxgen_nlohmann_json_FOUND}" "${ctxgen_nlohmann_json_VERSION}" 3.10)
add_library(ctxgen_nlohmann_json_headers INTERFACE IMPORTED GLOBAL)
target_include_directories(ctxgen_nlohmann_json_headers SYSTEM INTERFACE ${ctxgen_nlohmann_json_INCLUDE_DIRS})

pkg_check_modules(ctxgen_libzip QUIET IMPORTED_TARGET GLOBAL libzip)
ctxgen_need(libzip "${ctxgen_libzip_FOUND}" "${ctxgen_libzip_VERSION}" 1.7)
if(NOT TARGET libzip::zip)
  add_library(libzip::zip INTERFACE IMPORTED GLOBAL)
  target_link_libraries(libzip::zip INTERFACE PkgConfig::ctxgen_libzip)
endif()

# Headers only: the plugin is loaded by ONNX Runtime, the tests load its library at run time.
set(CTXGEN_HAVE_ONNXRUNTIME FALSE)
find_package(onnxruntime CONFIG QUIET)
find_path(CTXGEN_ONNXRUNTIME_INCLUDE_DIR onnxruntime_ep_c_api.h PATH_SUFFIXES onnxruntime onnxruntime/core/session)
if(CTXGEN_ONNXRUNTIME_INCLUDE_DIR AND NOT "${onnxruntime_VERSION}" VERSION_LESS 1.23)
  set(CTXGEN_HAVE_ONNXRUNTIME TRUE)
  if(NOT TARGET ctxgen_onnxruntime_headers)
    add_library(ctxgen_onnxruntime_headers INTERFACE IMPORTED GLOBAL)
    target_include_directories(ctxgen_onnxruntime_headers SYSTEM INTERFACE "${CTXGEN_ONNXRUNTIME_INCLUDE_DIR}")
  endif()
elseif(CTXGEN_BUILD_PLUGIN)
  message(STATUS "no headers of ONNX Runtime 1.23 or later: the plugin is left out")
endif()

# Headers only: Node.js has the functions.
find_path(CTXGEN_NODE_INCLUDE_DIR node_api.h PATH_SUFFIXES node)
if(CTXGEN_NODE_INCLUDE_DIR AND NOT TARGET ctxgen_node_headers)
  add_library(ctxgen_node_headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(ctxgen_node_headers SYSTEM INTERFACE "${CTXGEN_NODE_INCLUDE_DIR}")
elseif(CTXGEN_BUILD_NODE)
  message(STATUS "no headers of Node.js: its addon is left out")
endif()

if(CTXGEN_BUILD_TESTS)
  find_package(GTest CONFIG QUIET)
  ctxgen_need(GoogleTest "${GTest_FOUND}" "${GTest_VERSION}" 1.14)
endif()
