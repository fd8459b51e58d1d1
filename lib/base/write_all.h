#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>

namespace ctxgen {

/// write(2) until all is written; 0, or the error number.
[[nodiscard]] inline int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) {  // a pipe that was made non-blocking
      pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
      static_cast<void>(::poll(&room, 1, -1));
      continue;
    }
    if (wrote < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return 0;
}

}  // namespace ctxgen
