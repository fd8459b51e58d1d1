# Writes OUT, a C++ source that defines page_parts.h: the files SHEET and the files SCRIPTS (separated by blanks), as raw strings. One
# string per file: compilers need not take longer ones than 65536 characters.
function(literals result)
  set(text "")
  foreach(file IN LISTS ARGN)
    file(READ "${file}" content)
    string(LENGTH "${content}" length)
    if(length GREATER 60000)
      message(FATAL_ERROR "${file} has ${length} characters: divide it")
    endif()
    string(APPEND text "    R\"ctxgen(${content})ctxgen\"\n")
  endforeach()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

separate_arguments(scripts UNIX_COMMAND "${SCRIPTS}")
literals(style "${SHEET}")
literals(script ${scripts})
file(WRITE "${OUT}" "#include \"report/page_parts.h\"

namespace ctxgen::cli {

const std::string_view kPageStyle =
${style};
const std::string_view kPageScript =
${script};

}  // namespace ctxgen::cli
")
