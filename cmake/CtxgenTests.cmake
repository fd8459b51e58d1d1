# ctxgen_add_test, ctxgen_add_python_tests: what `ctest` runs, one test per GoogleTest program and per Python file. Each writes XML with its
# single tests to tests/results of the build folder, which tests/run.py (./dev test) counts.

find_program(CTXGEN_PYTHON python3)

# Sets what every test runs with. The environment is for what the caller cannot know: conftest.py has the rest.
function(ctxgen_test_properties name seconds)
  cmake_parse_arguments(PARSE_ARGV 2 arg "BY_ISA" "" "ENVIRONMENT")
  set(environment
    "OMP_WAIT_POLICY=passive" # two tests share the cores: a spinning team would take them from the other one
    # Containers filled inside libraries that are not instrumented look overflowed; leaks and real overflows are still found.
    "ASAN_OPTIONS=detect_container_overflow=0:detect_stack_use_after_return=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    # libgomp and oneDNN are not instrumented (plan/omp_workers.cpp says where a team starts and ends).
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1")
  if(CTXGEN_SANITIZE)
    math(EXPR seconds "${seconds} * 5")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} ENVIRONMENT "${environment};${arg_ENVIRONMENT}")
  if(arg_BY_ISA)
    set_tests_properties(${name} PROPERTIES LABELS by_isa)
  endif()
endfunction()

# ctxgen_add_test(<name> SOURCES ... [LIBS target...] [INCLUDES folder...] [DEFINITIONS ...] [TIME_LIMIT seconds] [BY_ISA] [ALONE source...])
#
# GoogleTest program <name>, in tests/ of the build folder.
#   TIME_LIMIT  600 if it is not given
#   BY_ISA      the instruction set decides the outcome: .ci/run runs it a second time with AVX2 only
#   ALONE       sources that do not compile together with others (ctxgen_compile_together)
function(ctxgen_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "BY_ISA" "TIME_LIMIT" "SOURCES;LIBS;INCLUDES;DEFINITIONS;ALONE")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "ctxgen_add_test(${name}): needs SOURCES; unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" ${arg_INCLUDES})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gmock GTest::gtest_main ctxgen_options)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  ctxgen_compile_together(${name} ALONE ${arg_ALONE})

  if(NOT arg_TIME_LIMIT)
    set(arg_TIME_LIMIT 600)
  endif()
  set(options)
  if(arg_BY_ISA)
    set(options BY_ISA)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  ctxgen_test_properties(${name} ${arg_TIME_LIMIT} ${options}
    ENVIRONMENT "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/tests/results/${name}.xml")
endfunction()

# ctxgen_add_python_tests([BY_ISA file...] [LOADS file...])
#
# Each test_*.py below this folder, under its path from here.
#   LOADS  load our libraries into Python: with the address sanitizer its run-time library has to be there first
function(ctxgen_add_python_tests)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "BY_ISA;LOADS")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" test_*.py)
  foreach(name IN LISTS files)
    string(REPLACE "/" "." report "${name}")
    add_test(NAME ${name} COMMAND "${CTXGEN_PYTHON}" -m pytest -q --color=no
      "--junitxml=${PROJECT_BINARY_DIR}/tests/results/${report}.xml" "${CMAKE_CURRENT_SOURCE_DIR}/${name}")
    set(environment "CTXGEN_BUILD=${PROJECT_BINARY_DIR}" "PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}" "PYTHONDONTWRITEBYTECODE=1")
    if(name IN_LIST arg_LOADS AND "address" IN_LIST CTXGEN_SANITIZE)
      set(preloaded)
      foreach(library IN ITEMS libasan.so libstdc++.so)
        execute_process(COMMAND g++ -print-file-name=${library} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
        list(APPEND preloaded "${path}")
      endforeach()
      list(JOIN preloaded " " preloaded)
      list(APPEND environment "LD_PRELOAD=${preloaded}" "ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0") # Python leaks
    endif()
    set(options)
    if(name IN_LIST arg_BY_ISA)
      set(options BY_ISA)
    endif()
    ctxgen_test_properties(${name} 1200 ${options} ENVIRONMENT ${environment})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 5) # pytest: none was selected
  endforeach()
endfunction()
