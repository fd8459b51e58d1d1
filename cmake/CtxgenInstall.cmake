# Installs what exists under ctxgen::, its headers, the programs, and a CMake package of the same name.
include(CMakePackageConfigHelpers)

# A C API alone, `compiler` or `runtime`: `cmake --install BUILD --component NAME`. It needs no other package to be built against.
function(ctxgen_install_c_api package name description)
  string(SUBSTRING "${name}" 0 1 initial)
  string(SUBSTRING "${name}" 1 -1 rest)
  string(TOUPPER "${initial}" initial)
  set(export "ctxgen${initial}${rest}Targets") # ctxgenCompilerTargets.cmake
  install(TARGETS ctxgen_${name}_c EXPORT ${export} COMPONENT ${name}
    LIBRARY COMPONENT ${name} NAMELINK_COMPONENT ${name} FILE_SET HEADERS COMPONENT ${name})
  install(EXPORT ${export} NAMESPACE ctxgen:: DESTINATION "${package}" COMPONENT ${name})
  install(FILES "${PROJECT_BINARY_DIR}/ctxgenConfig.cmake" "${PROJECT_BINARY_DIR}/ctxgenConfigVersion.cmake"
    DESTINATION "${package}" COMPONENT ${name})
  cmake_path(SET folder NORMALIZE "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE CTXGEN_PC_PREFIX)
  set(CTXGEN_PC_NAME "${name}")
  set(CTXGEN_PC_DESCRIPTION "${description}")
  configure_file(cmake/ctxgen-c-api.pc.in ctxgen-${name}.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/ctxgen-${name}.pc" DESTINATION "${folder}" COMPONENT ${name})
endfunction()

function(ctxgen_install)
  set(package "${CMAKE_INSTALL_LIBDIR}/cmake/ctxgen")
  get_property(libraries GLOBAL PROPERTY CTXGEN_LIBRARIES)
  if(libraries)
    foreach(target IN LISTS libraries)
      get_target_property(sets ${target} INTERFACE_HEADER_SETS)
      if(sets)
        install(TARGETS ${target} EXPORT ctxgenTargets ARCHIVE FILE_SET HEADERS)
      else()
        install(TARGETS ${target} EXPORT ctxgenTargets ARCHIVE)
      endif()
    endforeach()
    install(EXPORT ctxgenTargets NAMESPACE ctxgen:: DESTINATION "${package}")
    get_property(CTXGEN_DEFAULT_PROVIDER GLOBAL PROPERTY CTXGEN_DEFAULT_PROVIDER)
    configure_package_config_file(cmake/ctxgenConfig.cmake.in ctxgenConfig.cmake INSTALL_DESTINATION "${package}")
    write_basic_package_version_file(ctxgenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
    ctxgen_install_c_api("${package}" compiler "Ahead-of-time ONNX compiler to EPContext models, C API")
    ctxgen_install_c_api("${package}" runtime "Runs EPContext models and plain ONNX models, C API")
    install(FILES
      "${PROJECT_BINARY_DIR}/ctxgenConfig.cmake" "${PROJECT_BINARY_DIR}/ctxgenConfigVersion.cmake"
      "${PROJECT_SOURCE_DIR}/cmake/CtxgenCompile.cmake" "${PROJECT_SOURCE_DIR}/cmake/CtxgenDependencies.cmake"
      DESTINATION "${package}")
  endif()
  if(TARGET ctxgen)
    install(TARGETS ctxgen EXPORT ctxgenTargets RUNTIME)
    set(documents "${PROJECT_BINARY_DIR}/documents/") # apps/ctxgen writes them
    install(DIRECTORY "${documents}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" FILES_MATCHING PATTERN "*.1")
    install(FILES "${documents}/ctxgen.bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME ctxgen)
    install(FILES "${documents}/_ctxgen" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
    install(FILES "${documents}/ctxgen.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
  endif()
  install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endfunction()
