#include "interrupt.h"

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

extern "C" void on_termination(int signal) {
  unlink_live_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void handle_interrupts(Interrupt how) {
  cooperative = how == Interrupt::kCooperative;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_termination);
  std::signal(SIGHUP, on_termination);
}

bool interrupted() { return was_interrupted; }

}  // namespace ctxgen::cli
