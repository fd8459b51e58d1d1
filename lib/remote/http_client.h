#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// What a server answered, or why it did not.
struct HttpReply {
  long status = 0;      // 0: none came
  std::string problem;  // "": the exchange was complete; never holds credentials
  [[nodiscard]] bool done() const { return problem.empty() && status / 100 == 2; }
  [[nodiscard]] bool missing() const { return problem.empty() && (status == 404 || status == 410); }
  /// "HTTP 507", or the problem.
  [[nodiscard]] std::string text() const;
};

/// Exchanges with one server over HTTP or HTTPS: connections are kept, redirections are not followed.
///
/// Threads  one at a time.
class HttpClient {
 public:
  /// Takes a part of a body; false ends the exchange.
  using Take = std::function<bool(std::span<const std::byte>)>;
  /// Called at least once a second with the bytes of the body that moved so far; false ends the exchange.
  using GoOn = std::function<bool(std::uint64_t bytes)>;

  /// `base`: without a slash at its end. `headers`: lines "Name: value" of every request; credentials for the
  /// host may be in netrc, too ($NETRC, ~/.netrc).
  /// Errors  INVALID_ARGUMENT: something else than http(s)://HOST[:PORT][/PATH], or with credentials in it.
  [[nodiscard]] static Result<std::unique_ptr<HttpClient>> open(
      const std::string& base, const std::vector<std::string>& headers, double connect_seconds);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// The body of anything but 200 is not taken.
  [[nodiscard]] HttpReply get(std::string_view path, const Take& take, const GoOn& go_on);
  [[nodiscard]] HttpReply head(std::string_view path, const GoOn& go_on);
  [[nodiscard]] HttpReply put(std::string_view path, std::span<const std::byte> body,
                              const GoOn& go_on);

 private:
  HttpClient();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ctxgen
