# The one description of the packages, for CPack; `./dev package` runs it, and makes the archive and the wheel from the same components.
#
# Dependencies come from dpkg-shlibdeps. Libraries are in /usr/lib, not in Debian's folder per architecture: the plugin's Python module
# finds its library relative to itself.

# Packages of two Debian suites need other libraries, so their versions differ: 0.1.0-1~deb14 (forky).
function(ctxgen_debian_release result)
  set(codename "")
  if(EXISTS /etc/os-release)
    file(STRINGS /etc/os-release codename REGEX "^VERSION_CODENAME=")
    string(REGEX REPLACE "^VERSION_CODENAME=\"?([a-z]*).*" "\\1" codename "${codename}")
  endif()
  set(numbers trixie 13 forky 14)
  list(FIND numbers "${codename}" at)
  set(release "1")
  if(codename AND NOT at EQUAL -1)
    math(EXPR at "${at} + 1")
    list(GET numbers ${at} number)
    set(release "1~deb${number}")
  endif()
  set(${result} "${release}" PARENT_SCOPE)
endfunction()

# ctxgen_debian_package(<component> <package> DESCRIPTION <text> [SECTION <name>] [DEPENDS <package>...])
#
# One component is one package. A package in DEPENDS that ends with (=) is wanted in the version of this one.
macro(ctxgen_debian_package component name)
  cmake_parse_arguments(arg "" "DESCRIPTION;SECTION" "DEPENDS" ${ARGN})
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER "${component}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME "${name}")
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${arg_DESCRIPTION}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION "${arg_SECTION}")
  list(JOIN arg_DEPENDS ", " depends)
  string(REPLACE "(=)" "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})" CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
  configure_file(cmake/debian-copyright.in "documents-debian/${name}/copyright" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/documents-debian/${name}/copyright" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${name}"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()

# Call it last: CPack reads what is installed.
macro(ctxgen_packages)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_VENDOR "The ctxgen authors")
  set(CPACK_PACKAGE_CONTACT "The ctxgen authors <ctxgen@localhost>")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_VERBATIM_VARIABLES ON)
  set(CPACK_THREADS 0)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  ctxgen_debian_release(CPACK_DEBIAN_PACKAGE_RELEASE)
  # Its own libraries, before they are installed anywhere.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")

  file(READ NOTICE CTXGEN_NOTICE)
  set(CPACK_COMPONENTS_ALL "")
  ctxgen_debian_package(program ctxgen
    DESCRIPTION "The command line. A model that it compiled loads on CPUs in milliseconds, with one copy of its weights for all processes.")
  ctxgen_debian_package(runtime_library libctxgen-runtime1 SECTION libs
    DESCRIPTION "The runtime, a library with a C interface: loads compiled and plain ONNX models and runs them with oneDNN.")
  ctxgen_debian_package(runtime_development libctxgen-runtime-dev SECTION libdevel
    DESCRIPTION "For programs over the runtime: ctxgen_runtime.h, pkg-config's ctxgen-runtime, CMake's find_package(ctxgen COMPONENTS runtime)."
    DEPENDS "libctxgen-runtime1 (=)")
  ctxgen_debian_package(compiler_library libctxgen-compiler1 SECTION libs
    DESCRIPTION "The compiler, a library with a C interface.")
  ctxgen_debian_package(development libctxgen-dev SECTION libdevel
    DESCRIPTION "The C++ libraries and their headers, ctxgen_compiler.h, and ctxgen_compile() for CMake."
    DEPENDS "ctxgen (=)" "libctxgen-compiler1 (=)" "libctxgen-runtime-dev (=)" libcli11-dev libcurl4-openssl-dev libdnnl-dev libonnx-dev libprotobuf-dev
      libspdlog-dev libssl-dev libhwy-dev libxxhash-dev libzip-dev libzstd-dev nlohmann-json3-dev pkg-config protobuf-compiler)
  if(TARGET ctxgen_onnxruntime)
    ctxgen_debian_package(plugin onnxruntime-ep-ctxgen SECTION libs
      DESCRIPTION "A plugin for ONNX Runtime 1.23 and later that runs compiled models, and the Python module that says where it is.")
  endif()
  include(CPack)

  # What `./dev package` builds first; CPack's own target would build the tests, too.
  get_property(libraries GLOBAL PROPERTY CTXGEN_LIBRARIES)
  add_custom_target(packaged)
  add_dependencies(packaged ${libraries} ctxgen ctxgen_documents ctxgen_compiler_c ctxgen_runtime_c)
  foreach(target IN ITEMS ctxgen_onnxruntime ctxgen_node)
    if(TARGET ${target})
      add_dependencies(packaged ${target})
    endif()
  endforeach()
endmacro()
