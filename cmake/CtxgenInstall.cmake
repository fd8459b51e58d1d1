# Installs what exists under ctxgen::, its headers, the programs, and a CMake package of the same name.
#
# `cmake --install BUILD` installs everything. `--component compiler` or `--component runtime` installs one C API whole: library, header,
# CMake package, pkg-config file. The components of cmake/CtxgenPackages.cmake divide all of it into packages that share no file.
include(CMakePackageConfigHelpers)

# A C API alone, `compiler` or `runtime`. It needs no other package to be built against.
# Its parts once more for packages: <name>_library, what programs run with; the rest for the component that is given.
function(ctxgen_install_c_api package name development description)
  string(SUBSTRING "${name}" 0 1 initial)
  string(SUBSTRING "${name}" 1 -1 rest)
  string(TOUPPER "${initial}" initial)
  set(export "ctxgen${initial}${rest}Targets") # ctxgenCompilerTargets.cmake
  cmake_path(SET folder NORMALIZE "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE CTXGEN_PC_PREFIX)
  set(CTXGEN_PC_NAME "${name}")
  set(CTXGEN_PC_DESCRIPTION "${description}")
  configure_file(cmake/ctxgen-c-api.pc.in ctxgen-${name}.pc @ONLY)

  install(TARGETS ctxgen_${name}_c EXPORT ${export}
    LIBRARY COMPONENT ${name} NAMELINK_COMPONENT ${name} FILE_SET HEADERS COMPONENT ${name})
  install(TARGETS ctxgen_${name}_c LIBRARY COMPONENT ${name}_library EXCLUDE_FROM_ALL NAMELINK_SKIP)
  install(TARGETS ctxgen_${name}_c LIBRARY COMPONENT ${development} EXCLUDE_FROM_ALL NAMELINK_ONLY)
  install(FILES "${PROJECT_SOURCE_DIR}/lib/${name}/capi/include/ctxgen_${name}.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    COMPONENT ${development} EXCLUDE_FROM_ALL)
  foreach(component IN ITEMS ${name} ${development})
    install(EXPORT ${export} NAMESPACE ctxgen:: DESTINATION "${package}" COMPONENT ${component})
    install(FILES "${PROJECT_BINARY_DIR}/ctxgen-${name}.pc" DESTINATION "${folder}" COMPONENT ${component})
  endforeach()
endfunction()

# The config files of the CMake package.
function(ctxgen_install_config package)
  foreach(component IN ITEMS ${ARGN})
    install(FILES "${PROJECT_BINARY_DIR}/ctxgenConfig.cmake" "${PROJECT_BINARY_DIR}/ctxgenConfigVersion.cmake"
      DESTINATION "${package}" COMPONENT ${component})
  endforeach()
endfunction()

function(ctxgen_install)
  set(package "${CMAKE_INSTALL_LIBDIR}/cmake/ctxgen")
  get_property(libraries GLOBAL PROPERTY CTXGEN_LIBRARIES)
  if(libraries)
    foreach(target IN LISTS libraries)
      get_target_property(sets ${target} INTERFACE_HEADER_SETS)
      if(sets)
        install(TARGETS ${target} EXPORT ctxgenTargets ARCHIVE COMPONENT development FILE_SET HEADERS COMPONENT development)
      else()
        install(TARGETS ${target} EXPORT ctxgenTargets ARCHIVE COMPONENT development)
      endif()
    endforeach()
    install(EXPORT ctxgenTargets NAMESPACE ctxgen:: DESTINATION "${package}" COMPONENT development)
    get_property(CTXGEN_DEFAULT_PROVIDER GLOBAL PROPERTY CTXGEN_DEFAULT_PROVIDER)
    configure_package_config_file(cmake/ctxgenConfig.cmake.in ctxgenConfig.cmake INSTALL_DESTINATION "${package}")
    write_basic_package_version_file(ctxgenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
    ctxgen_install_c_api("${package}" compiler development "Ahead-of-time ONNX compiler to EPContext models, C API")
    ctxgen_install_c_api("${package}" runtime runtime_development "Runs EPContext models and plain ONNX models, C API")
    ctxgen_install_config("${package}" compiler runtime runtime_development)
    install(FILES lib/capi/include/ctxgen_status.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT runtime_development EXCLUDE_FROM_ALL)
    install(FILES
      "${PROJECT_SOURCE_DIR}/cmake/CtxgenCompile.cmake" "${PROJECT_SOURCE_DIR}/cmake/CtxgenDependencies.cmake"
      DESTINATION "${package}" COMPONENT development)
  endif()
  if(TARGET ctxgen)
    install(TARGETS ctxgen EXPORT ctxgenTargets RUNTIME COMPONENT program)
    set(documents "${PROJECT_BINARY_DIR}/documents/") # apps/ctxgen writes them
    install(DIRECTORY "${documents}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program FILES_MATCHING PATTERN "*.1")
    install(FILES "${documents}/ctxgen.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME ctxgen
      COMPONENT program)
    install(FILES "${documents}/_ctxgen" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT program)
    install(FILES "${documents}/ctxgen.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT program)
  endif()
  install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT documents)
endfunction()
