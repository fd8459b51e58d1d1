#include "term/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "ctxgen/base/file.h"
#include "ctxgen/base/status.h"

namespace ctxgen::cli {
namespace {

// Lock-free, so a signal handler may touch it.
std::atomic<bool> was_interrupted{false};
std::atomic<bool> cooperative{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int) {
  if (cooperative && !was_interrupted.exchange(true)) return;
  unlink_live_temporaries();
  constexpr std::string_view message = "ctxgen: error: CANCELLED: interrupted\n";
  [[maybe_unused]] const auto ignored = write(STDERR_FILENO, message.data(), message.size());
  _exit(130);
}

/// As the system would, but after the temporaries are gone.
extern "C" void on_termination(int signal) {
  unlink_live_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Those that end a process from outside, or because of what it does with files. Crashes are not among
/// them: their handlers belong to debuggers and sanitizers.
constexpr int kTerminations[] = {SIGHUP,  SIGQUIT, SIGTERM, SIGPIPE,  SIGALRM,
                                 SIGUSR1, SIGUSR2, SIGXCPU, SIGVTALRM};

/// What the caller has ignored (nohup) or handled (a preloaded library) stays so.
void handle(int signal, void (*handler)(int)) {
  struct sigaction now{};
  if (::sigaction(signal, nullptr, &now) == 0 &&
      (now.sa_handler == SIG_DFL || now.sa_handler == handler))
    std::signal(signal, handler);
}

}  // namespace

void handle_interrupts(Interrupt how) {
  cooperative = how == Interrupt::kCooperative;
  std::signal(SIGINT, on_interrupt);
  for (const int signal : kTerminations) handle(signal, on_termination);
  // `ulimit -f`: write(2) fails, which is an error with a message like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
}

bool interrupted() { return was_interrupted; }

}  // namespace ctxgen::cli
