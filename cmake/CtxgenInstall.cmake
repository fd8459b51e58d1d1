# Installs what exists under ctxgen::, its headers, the programs, and a CMake package of the same name.
include(CMakePackageConfigHelpers)

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
    install(FILES
      "${PROJECT_BINARY_DIR}/ctxgenConfig.cmake" "${PROJECT_BINARY_DIR}/ctxgenConfigVersion.cmake"
      "${PROJECT_SOURCE_DIR}/cmake/CtxgenDependencies.cmake"
      DESTINATION "${package}")
  endif()
  if(TARGET ctxgen)
    install(TARGETS ctxgen RUNTIME)
  endif()
  install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endfunction()
