# Installs what exists under ctxgen::, its headers, the programs, and a CMake package of the same name.
include(CMakePackageConfigHelpers)

# The C API alone: `cmake --install BUILD --component compiler`. It needs no other package to be built against.
function(ctxgen_install_c_api package)
  install(TARGETS ctxgen_compiler_c EXPORT ctxgenCompilerTargets COMPONENT compiler
    LIBRARY COMPONENT compiler NAMELINK_COMPONENT compiler FILE_SET HEADERS COMPONENT compiler)
  install(EXPORT ctxgenCompilerTargets NAMESPACE ctxgen:: DESTINATION "${package}" COMPONENT compiler)
  install(FILES "${PROJECT_BINARY_DIR}/ctxgenConfig.cmake" "${PROJECT_BINARY_DIR}/ctxgenConfigVersion.cmake"
    DESTINATION "${package}" COMPONENT compiler)
  cmake_path(SET folder NORMALIZE "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE CTXGEN_PC_PREFIX)
  configure_file(cmake/ctxgen-compiler.pc.in ctxgen-compiler.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/ctxgen-compiler.pc" DESTINATION "${folder}" COMPONENT compiler)
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
    configure_package_config_file(cmake/ctxgenConfig.cmake.in ctxgenConfig.cmake INSTALL_DESTINATION "${package}")
    write_basic_package_version_file(ctxgenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
    ctxgen_install_c_api("${package}")
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
