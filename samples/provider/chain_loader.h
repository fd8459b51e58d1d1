#pragma once

#include <ctxgen/ctxfile/executable.h>

namespace chain {

/// EPContext `source`: by it a session finds the load side of a program.
inline constexpr std::string_view kSource = "ChainExecutionProvider";

/// The op kinds of programs: the contract between compile and load side. Each works element by element
/// on float32 values, all of one shape.
inline constexpr std::string_view kNeg = "neg";  // y = -x
inline constexpr std::string_view kAbs = "abs";  // y = |x|
inline constexpr std::string_view kAdd = "add";  // y = x + weight, of as many elements

/// The load side. It sees ctxfile and what is below it only, so that a process that runs context
/// models links no compiler.
[[nodiscard]] const ctxgen::ProgramLoader& loader();

}  // namespace chain
