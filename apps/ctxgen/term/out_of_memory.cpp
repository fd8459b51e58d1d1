#include "term/out_of_memory.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <typeinfo>

#include "ctxgen/base/file.h"

#include "term/console.h"

namespace ctxgen::cli {
namespace {

/// Members of objects at address 0 are below this.
constexpr std::uintptr_t kNearNull = std::uintptr_t{1} << 20;

std::atomic<bool> main_runs{false};  // or the initialisers before it

void write_line(int fd, std::string_view text) {
  [[maybe_unused]] const auto ignored = write(fd, text.data(), text.size());
}

[[noreturn]] void end_without_memory() {
  unlink_live_temporaries();
  write_line(STDERR_FILENO, "ctxgen: error: RESOURCE_LIMIT: out of memory\n");
  if (errors_are_json())
    write_line(STDOUT_FILENO,
               "{\n  \"error\": {\n    \"code\": \"RESOURCE_LIMIT\",\n    \"status\": 2,\n"
               "    \"message\": \"out of memory\"\n  }\n}\n");
  _exit(2);
}

/// Whether what is thrown says that memory is used up. Asked without catching it, which would take memory.
bool is_want_of_memory(const std::type_info* thrown) {
  return thrown != nullptr &&
         (*thrown == typeid(std::bad_alloc) || *thrown == typeid(std::bad_array_new_length) ||
          *thrown == typeid(std::length_error));
}

/// The smaller of the limits of the address space and of data; 0: none.
std::uint64_t limit_bytes() {
  std::uint64_t least = 0;
  for (const auto what : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    least = least == 0 ? limit.rlim_cur : std::min<std::uint64_t>(least, limit.rlim_cur);
  }
  return least;
}

/// Whether half of such a limit is used: what fails far below it has another cause. Only system calls, no memory.
bool is_near_limit() {
  const std::uint64_t limit = limit_bytes();
  const int file = limit == 0 ? -1 : open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 32> text{};
  const ssize_t size = read(file, text.data(), text.size());
  close(file);
  std::uint64_t pages = 0;
  if (size > 0) std::from_chars(text.data(), text.data() + size, pages);
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) >= limit / 2;
}

/// Without an exception: there was no memory for it.
[[noreturn]] void on_terminate() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (is_want_of_memory(thrown) || (thrown == nullptr && is_near_limit())) end_without_memory();
  unlink_live_temporaries();
  write_line(STDERR_FILENO, "ctxgen: error: INTERNAL: uncaught exception\n");
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

/// Nothing here calls exit() while main() runs, but libgomp does where it gets no memory or no thread.
void on_exit() {
  if (main_runs) end_without_memory();
}

extern "C" void on_bad_access(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (info->si_code == SEGV_MAPERR && address < kNearNull && is_near_limit()) end_without_memory();
  std::signal(signal, SIG_DFL);  // the access comes again
}

void install(int count, char** arguments, char** /*environment*/) {
  if (main_runs.exchange(true)) return;
  std::set_terminate(on_terminate);
  std::atexit(on_exit);
  for (int i = 1; i < count; ++i)
    if (std::strcmp(arguments[i], "--json") == 0)
      print_errors_as_json(true);  // main() looks closer
}

// Before the initialisers of the shared libraries; those of a sanitizer have to come first.
#if defined(__has_feature)
#define CTXGEN_HAS_FEATURE(name) __has_feature(name)
#else
#define CTXGEN_HAS_FEATURE(name) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !CTXGEN_HAS_FEATURE(address_sanitizer) && !CTXGEN_HAS_FEATURE(thread_sanitizer)
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)(int, char**,
                                                                             char**) = install;
#endif

}  // namespace

void main_ends() { main_runs = false; }

void main_begins(int count, char** arguments) {
  install(count, arguments, nullptr);
  if (limit_bytes() == 0) return;
  struct sigaction action{};
  action.sa_sigaction = on_bad_access;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace ctxgen::cli
