// Forced into every file by CTXGEN_FAST_BUILD: the core of std::format is compiled once, in lib/base/std_format.cpp.
//
// libstdc++ compiles it, with the formatters of all arithmetic types for char and wchar_t, in each file that includes <format>, as
// <chrono>, <filesystem> and <thread> do: up to 3 s per file. (Its shared library holds a copy, which its headers use in C++20 only,
// since that copy lacks what C++23 added: "{:?}".)
#pragma once

#include <format>

namespace std::__format {
extern template _Sink_iter<char> __do_vformat_to<char, 1>(_Sink_iter<char>, string_view,
                                                          format_context&);
extern template _Sink_iter<wchar_t> __do_vformat_to<wchar_t, 1>(_Sink_iter<wchar_t>, wstring_view,
                                                                wformat_context&);
}  // namespace std::__format
