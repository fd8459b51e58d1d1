# ctxgen_add_library, ctxgen_compile_together; ctxgen_write_lists writes what the first collected.

# ctxgen_compile_together(<target> [ALONE source...])
#
# With CTXGEN_FAST_BUILD the sources of the target are compiled six at a time, which takes a third of the time: headers are read once and
# each template is compiled once. Files whose names collide with those of another (the compiler says "redefinition") get other names, or
# are ALONE here. Call it after the last source was added.
function(ctxgen_compile_together target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ALONE")
  set_target_properties(${target} PROPERTIES UNITY_BUILD "${CTXGEN_FAST_BUILD}" UNITY_BUILD_BATCH_SIZE 6 UNITY_BUILD_RELOCATABLE ON)
  foreach(source IN LISTS arg_ALONE)
    if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${source}" AND NOT EXISTS "${source}")
      message(FATAL_ERROR "ctxgen_compile_together(${target}): no source \"${source}\"")
    endif()
  endforeach()
  if(arg_ALONE)
    set_source_files_properties(${arg_ALONE} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# ctxgen_add_library(<name> [SOURCES ...] [ROOMS folder...] [HEADERS ...] [GENERATED_HEADERS ...] [PUBLIC target...] [PRIVATE target...]
#                    [ALONE source...])
#
# Static library ctxgen_<name>, alias ctxgen::<name>; without SOURCES and ROOMS an interface library.
#   ROOMS              subfolders, each with a CMakeLists.txt whose first line says what it is for and which adds its sources (target_sources)
#   HEADERS            public headers, below include/ of this folder; nothing else of the folder is seen by others
#   GENERATED_HEADERS  public headers made at configure time, below include/ of this folder's binary folder
#   PUBLIC, PRIVATE    what it links; PUBLIC only where its own headers include the other's
#   ALONE              sources that do not compile together with others (ctxgen_compile_together)
function(ctxgen_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ROOMS;HEADERS;GENERATED_HEADERS;PUBLIC;PRIVATE;ALONE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ctxgen_add_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target ctxgen_${name})
  set(include "${CMAKE_CURRENT_SOURCE_DIR}/include")
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/include")

  if(arg_SOURCES OR arg_ROOMS)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:ctxgen_options>)
    target_compile_features(${target} PUBLIC cxx_std_23)
    ctxgen_compile_together(${target} ALONE ${arg_ALONE})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_PUBLIC} ${arg_PRIVATE})
    target_compile_features(${target} INTERFACE cxx_std_23)
  endif()
  add_library(ctxgen::${name} ALIAS ${target})

  set(bases "${include}")
  if(arg_GENERATED_HEADERS)
    list(APPEND bases "${generated}")
    list(TRANSFORM arg_GENERATED_HEADERS PREPEND "${generated}/")
  endif()
  list(TRANSFORM arg_HEADERS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  if(arg_HEADERS OR arg_GENERATED_HEADERS)
    target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${bases} FILES ${arg_HEADERS} ${arg_GENERATED_HEADERS})
  endif()

  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} CTXGEN_HEADERS "${arg_HEADERS};${arg_GENERATED_HEADERS}")
  set_property(GLOBAL APPEND PROPERTY CTXGEN_LIBRARIES ${target})
  foreach(room IN LISTS arg_ROOMS)
    add_subdirectory("${room}")
  endforeach()
endfunction()

# Writes layers.txt (for tests/build/test_layers.py: per library its name, folder, public headers, and the include folders that its own
# sources and that its users see).
function(ctxgen_write_lists)
  set(layers "")
  get_property(libraries GLOBAL PROPERTY CTXGEN_LIBRARIES)
  foreach(target IN LISTS libraries)
    get_target_property(folder ${target} SOURCE_DIR)
    get_target_property(type ${target} TYPE)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set(interface "$<TARGET_GENEX_EVAL:${target},$<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>>")
    set(own "${interface}")
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      set(own "$<TARGET_GENEX_EVAL:${target},$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>>")
    endif()
    string(APPEND layers
      "${target}|${folder}|$<TARGET_PROPERTY:${target},CTXGEN_HEADERS>|${interface}|${own}\n")
  endforeach()
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/layers.txt" CONTENT "${layers}")
endfunction()
