# ctxgen_compile(TARGET <name> MODELS <file.onnx>... [OUTPUT_DIRECTORY <dir>] [OPTIONS <option>...])
#
# Compiles ONNX models when the target <name> is built, which is part of ALL. Several models share one context binary. Runs again when a
# model, its external data or the command line changes.
#   OUTPUT_DIRECTORY  default: the current binary folder; relative to it
#   OPTIONS           of `ctxgen compile`. Those that name outputs or dependency files are set here. Unless the outputs hold no context
#                     binary (--embed, --provider cpu), a model of which nothing is compiled fails the build: a build must know its
#                     outputs before it runs. The bin of one provider is expected: of the default one, or the first of --provider
# Target properties afterwards: CTXGEN_MODELS, the context models in the order of MODELS, and CTXGEN_FILES, these and what lies beside.
function(ctxgen_compile)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET;OUTPUT_DIRECTORY" "MODELS;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_TARGET OR NOT arg_MODELS)
    message(FATAL_ERROR "ctxgen_compile: needs TARGET and MODELS; unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(option IN LISTS arg_OPTIONS)
    if(option MATCHES "^(-o|--output|--bin|--depfile|-M[DFT]|--dry-run|--no-clobber|--append|--options)($|=)")
      message(FATAL_ERROR "ctxgen_compile(${arg_TARGET}): ${option} cannot stand in OPTIONS")
    endif()
  endforeach()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}")
  if(arg_OUTPUT_DIRECTORY)
    cmake_path(ABSOLUTE_PATH arg_OUTPUT_DIRECTORY BASE_DIRECTORY "${folder}" NORMALIZE OUTPUT_VARIABLE folder)
  endif()
  set(inputs "")
  set(models "")
  foreach(model IN LISTS arg_MODELS)
    cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    cmake_path(GET model STEM LAST_ONLY stem)
    list(APPEND inputs "${model}")
    list(APPEND models "${folder}/${stem}_ctx.onnx")
  endforeach()

  set(files "${models}")
  set(options "${arg_OPTIONS}")
  if(NOT ";${arg_OPTIONS};" MATCHES ";--embed;|;--provider[;=]cpu;")
    get_property(provider GLOBAL PROPERTY CTXGEN_DEFAULT_PROVIDER)
    if(";${arg_OPTIONS};" MATCHES ";--provider[;=]([^;,]+)[;,]")
      set(provider "${CMAKE_MATCH_1}")
    endif()
    list(GET models 0 first)
    string(REGEX REPLACE "_ctx\\.onnx$" "_${provider}.bin" bin "${first}")
    list(APPEND files "${bin}")
    list(APPEND options --require-compiled)
  endif()
  if(";${arg_OPTIONS};" MATCHES ";--external-initializers[;=]([^;]+);")
    list(APPEND files "${folder}/${CMAKE_MATCH_1}")
  endif()

  set(output "${folder}/")
  list(LENGTH models count)
  if(count EQUAL 1)
    set(output "${models}") # its folder is made below
  endif()
  set(depfile "${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}.ctxgen.d")
  add_custom_command(
    OUTPUT ${files}
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
    COMMAND ctxgen::ctxgen compile ${inputs} -o "${output}" --depfile "${depfile}" -q ${options}
    DEPENDS ${inputs} ctxgen::ctxgen
    DEPFILE "${depfile}"
    COMMENT "Compiling ONNX models of ${arg_TARGET}"
    COMMAND_EXPAND_LISTS
    VERBATIM)
  add_custom_target(${arg_TARGET} ALL DEPENDS ${files})
  set_target_properties(${arg_TARGET} PROPERTIES CTXGEN_MODELS "${models}" CTXGEN_FILES "${files}")
endfunction()
