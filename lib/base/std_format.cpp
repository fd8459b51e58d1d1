// The core of std::format, compiled once for all files: cmake/std_format.h.
#include <format>

#ifdef CTXGEN_STD_FORMAT
namespace std::__format {
template _Sink_iter<char> __do_vformat_to<char, 1>(_Sink_iter<char>, string_view, format_context&);
template _Sink_iter<wchar_t> __do_vformat_to<wchar_t, 1>(_Sink_iter<wchar_t>, wstring_view,
                                                         wformat_context&);
}  // namespace std::__format
#endif
