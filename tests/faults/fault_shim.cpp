// Makes system calls on the files of one folder fail. Preloaded (LD_PRELOAD) into a program under test.
//
//   FAULT_FOLDER   only calls on files below it, and on descriptors opened there, count
//   FAULT          CALL:N:WHAT, e.g. write:3:ENOSPC; CALL * is any call, N * each one;
//                  WHAT is an errno of kErrors, SHORT (read and write one byte only) or a signal of kSignals, sent before
//                  the call
//   FAULT_COUNT    a file that gets a line "CALL N" per call that was counted, at exit
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace {

constexpr std::array<const char*, 9> kCalls{"open",  "write", "read",   "fsync", "rename",
                                            "close", "mmap",  "unlink", "fstat"};
enum Call { kOpen, kWrite, kRead, kFsync, kRename, kClose, kMmap, kUnlink, kFstat };

constexpr std::array<std::pair<const char*, int>, 10> kErrors{{{"ENOSPC", ENOSPC},
                                                               {"EIO", EIO},
                                                               {"EINTR", EINTR},
                                                               {"EACCES", EACCES},
                                                               {"EROFS", EROFS},
                                                               {"ENOMEM", ENOMEM},
                                                               {"EMFILE", EMFILE},
                                                               {"EDQUOT", EDQUOT},
                                                               {"EXDEV", EXDEV},
                                                               {"ENOENT", ENOENT}}};

constexpr std::array<std::pair<const char*, int>, 11> kSignals{{{"KILL", SIGKILL},
                                                                {"TERM", SIGTERM},
                                                                {"HUP", SIGHUP},
                                                                {"INT", SIGINT},
                                                                {"QUIT", SIGQUIT},
                                                                {"PIPE", SIGPIPE},
                                                                {"XCPU", SIGXCPU},
                                                                {"XFSZ", SIGXFSZ},
                                                                {"USR1", SIGUSR1},
                                                                {"USR2", SIGUSR2},
                                                                {"ALRM", SIGALRM}}};

constexpr int kShort = -1, kSignal = -2, kNone = 0;
constexpr int kMaxDescriptors = 4096;

struct Plan {
  std::string folder, call, count_file;
  long number = -1;  // 0: each
  int what = kNone;
  int signal = 0;  // of kSignal
  std::array<std::atomic<long>, kCalls.size()> seen{};
  std::array<std::atomic<bool>, kMaxDescriptors> ours{};

  Plan() {
    const auto variable = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value != nullptr ? value : "");
    };
    folder = variable("FAULT_FOLDER");
    count_file = variable("FAULT_COUNT");
    const std::string fault = variable("FAULT");
    const auto first = fault.find(':'), second = fault.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) return;
    call = fault.substr(0, first);
    const std::string n = fault.substr(first + 1, second - first - 1),
                      name = fault.substr(second + 1);
    number = n == "*" ? 0 : std::strtol(n.c_str(), nullptr, 10);
    if (name == "SHORT") what = kShort;
    for (const auto& [known, number_of] : kSignals) {
      if (name != known) continue;
      what = kSignal;
      signal = number_of;
    }
    for (const auto& [known, error] : kErrors)
      if (name == known) what = error;
  }
  ~Plan() {
    if (count_file.empty()) return;
    if (std::FILE* file = std::fopen(count_file.c_str(), "w")) {
      for (std::size_t c = 0; c < kCalls.size(); ++c)
        std::fprintf(file, "%s %ld\n", kCalls[c], seen[c].load());
      std::fclose(file);
    }
    count_file.clear();
  }
};

Plan& plan() {
  static Plan the_plan;
  return the_plan;
}

/// What is to happen to this call: an errno, kShort, or kNone.
int fate(Call call) {
  const long n = ++plan().seen[call];
  if (plan().what == kNone || (plan().call != "*" && plan().call != kCalls[call])) return kNone;
  long counted = n;
  if (plan().call == "*") {
    counted = 0;
    for (const auto& each : plan().seen) counted += each;
  }
  if (plan().number != 0 && plan().number != counted) return kNone;
  // A signal interrupts a call once; the next try goes through.
  if (plan().number == 0 && plan().what == EINTR && n % 2 == 0) return kNone;
  if (plan().what == kSignal) ::kill(::getpid(), plan().signal);
  return plan().what;
}

bool below(const char* path) {
  return !plan().folder.empty() && std::string_view(path).starts_with(plan().folder);
}
bool is_ours(int fd) {
  return fd >= 0 && fd < kMaxDescriptors && plan().ours[static_cast<std::size_t>(fd)];
}
void mark(int fd, bool ours) {
  if (fd >= 0 && fd < kMaxDescriptors) plan().ours[static_cast<std::size_t>(fd)] = ours;
}

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

template <class R>
R failed(int error) {
  errno = error;
  return static_cast<R>(-1);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode =
      (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
  va_end(list);
  static auto* const next = real<int(const char*, int, ...)>("open");
  if (!below(path)) return next(path, flags, mode);
  const int error = fate(kOpen);
  if (error > 0) return failed<int>(error);
  const int fd = next(path, flags, mode);
  mark(fd, true);
  return fd;
}

[[gnu::visibility("default")]] ssize_t write(int fd, const void* from, size_t size) {
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  const int error = is_ours(fd) ? fate(kWrite) : kNone;
  if (error > 0) return failed<ssize_t>(error);
  return next(fd, from, error == kShort && size > 1 ? 1 + size / 2 : size);
}

[[gnu::visibility("default")]] ssize_t read(int fd, void* to, size_t size) {
  static auto* const next = real<ssize_t(int, void*, size_t)>("read");
  const int error = is_ours(fd) ? fate(kRead) : kNone;
  if (error > 0) return failed<ssize_t>(error);
  return next(fd, to, error == kShort && size > 1 ? 1 : size);
}

[[gnu::visibility("default")]] int fsync(int fd) {
  static auto* const next = real<int(int)>("fsync");
  const int error = is_ours(fd) ? fate(kFsync) : kNone;
  return error > 0 ? failed<int>(error) : next(fd);
}

[[gnu::visibility("default")]] int close(int fd) {
  static auto* const next = real<int(int)>("close");
  const int error = is_ours(fd) ? fate(kClose) : kNone;
  mark(fd, false);
  const int status = next(fd);  // Linux closes in any case
  return error > 0 ? failed<int>(error) : status;
}

[[gnu::visibility("default")]] int fstat(int fd, struct stat* status) {
  static auto* const next = real<int(int, struct stat*)>("fstat");
  const int error = is_ours(fd) ? fate(kFstat) : kNone;
  return error > 0 ? failed<int>(error) : next(fd, status);
}

[[gnu::visibility("default")]] void* mmap(void* at, size_t size, int protection, int flags, int fd,
                                          off_t offset) {
  static auto* const next = real<void*(void*, size_t, int, int, int, off_t)>("mmap");
  const int error = is_ours(fd) ? fate(kMmap) : kNone;
  if (error <= 0) return next(at, size, protection, flags, fd, offset);
  errno = error;
  return MAP_FAILED;
}

[[gnu::visibility("default")]] int rename(const char* from, const char* to) {
  static auto* const next = real<int(const char*, const char*)>("rename");
  const int error = below(to) ? fate(kRename) : kNone;
  return error > 0 ? failed<int>(error) : next(from, to);
}

[[gnu::visibility("default")]] int unlink(const char* path) {
  static auto* const next = real<int(const char*)>("unlink");
  const int error = below(path) ? fate(kUnlink) : kNone;
  return error > 0 ? failed<int>(error) : next(path);
}

}  // extern "C"
