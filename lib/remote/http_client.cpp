#include "http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <format>
#include <utility>

#include "ctxgen/base/version.h"

namespace ctxgen {
namespace {

/// Of the body of an error, which is not read.
constexpr std::uint64_t kErrorBodyBytes = 64 << 10;

/// One exchange, as libcurl's functions see it.
struct Exchange {
  CURL* curl = nullptr;
  const HttpClient::Take* take = nullptr;
  const HttpClient::GoOn* go_on = nullptr;
  std::span<const std::byte> body = {};
  std::uint64_t sent = 0;  // of the body, from its beginning
  std::uint64_t moved = 0;
  bool refused = false;  // by take
};

std::size_t on_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  long status = 0;
  curl_easy_getinfo(exchange.curl, CURLINFO_RESPONSE_CODE, &status);
  exchange.moved += size;
  if (status != 200 || exchange.take == nullptr)
    return exchange.moved > kErrorBodyBytes ? CURL_WRITEFUNC_ERROR : size;
  exchange.refused = !(*exchange.take)(std::as_bytes(std::span(data, size)));
  return exchange.refused ? CURL_WRITEFUNC_ERROR : size;
}

std::size_t on_send(char* data, std::size_t, std::size_t room, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const auto left = exchange.body.subspan(exchange.sent);
  const std::size_t size = std::min(room, left.size());
  if (size > 0) std::memcpy(data, left.data(), size);
  exchange.sent += size;
  exchange.moved += size;
  return size;
}

/// libcurl sends a body again where a kept connection had been closed.
int on_seek(void* user, curl_off_t offset, int origin) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (origin != SEEK_SET || offset < 0 || static_cast<std::uint64_t>(offset) > exchange.body.size())
    return CURL_SEEKFUNC_FAIL;
  exchange.sent = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& exchange = *static_cast<Exchange*>(user);
  return (*exchange.go_on)(exchange.moved) ? 0 : 1;
}

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

/// Nothing where the URL has no such part.
std::string part_of(CURLU* url, CURLUPart which) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, 0) != CURLUE_OK) return {};
  std::string part = text;
  curl_free(text);
  return part;
}

/// No error shows the URL: there may be a password or a token in it, also where it cannot be parsed.
Status check_url(const std::string& base) {
  const std::unique_ptr<CURLU, FreeUrl> url(curl_url());
  const bool parsed =
      url != nullptr && curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) == CURLUE_OK;
  if (parsed &&
      !(part_of(url.get(), CURLUPART_USER) + part_of(url.get(), CURLUPART_PASSWORD)).empty())
    return fail(
        ErrorCode::kInvalidArgument,
        "the URL of the remote cache holds credentials: put them into ~/.netrc or a header file");
  const std::string scheme = parsed ? part_of(url.get(), CURLUPART_SCHEME) : std::string();
  if ((scheme != "http" && scheme != "https") || base.find_first_of("?#") != std::string::npos)
    return fail(ErrorCode::kInvalidArgument,
                "the URL of a remote cache must be http://HOST[:PORT][/PATH] or https://..., "
                "without ? and #");
  return {};
}

}  // namespace

struct HttpClient::Impl {
  CURL* curl = nullptr;
  std::string base, netrc;
  curl_slist* headers = nullptr;
  long connect_ms = 0;
  char problem[CURL_ERROR_SIZE] = "";

  ~Impl() {
    curl_slist_free_all(headers);
    if (curl != nullptr) curl_easy_cleanup(curl);
  }
  Status add_header(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers, line.c_str());
    if (longer == nullptr) return fail(ErrorCode::kResourceLimit, "out of memory");
    headers = longer;
    return {};
  }

  template <class T>
  void set(CURLoption option, T value) const {
    curl_easy_setopt(curl, option, value);
  }

  void prepare(std::string_view path, Exchange& exchange) {
    curl_easy_reset(curl);  // keeps connections
    exchange.curl = curl;
    set(CURLOPT_URL, (base + std::string(path)).c_str());  // copied
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "ctxgen/" CTXGEN_VERSION_STRING);
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
    if (!netrc.empty()) set(CURLOPT_NETRC_FILE, netrc.c_str());
    set(CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    set(CURLOPT_ERRORBUFFER, problem);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &on_progress);
    set(CURLOPT_XFERINFODATA, &exchange);
    set(CURLOPT_WRITEFUNCTION, &on_body);
    set(CURLOPT_WRITEDATA, &exchange);
    problem[0] = '\0';
  }

  HttpReply perform(const Exchange& exchange) {
    const CURLcode code = curl_easy_perform(curl);
    HttpReply reply;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply.status);
    if (code == CURLE_OK) return reply;
    if (code == CURLE_WRITE_ERROR && !exchange.refused) return reply;  // a long page of an error
    reply.problem = code == CURLE_ABORTED_BY_CALLBACK ? "it took too long"
                    : exchange.refused                ? "it sent something else than it should"
                    : problem[0] != '\0'              ? problem
                                                      : curl_easy_strerror(code);
    return reply;
  }
};

std::string HttpReply::text() const {
  return problem.empty() ? std::format("HTTP {}", status) : problem;
}

HttpClient::HttpClient() : impl_(std::make_unique<Impl>()) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::open(const std::string& base,
                                                     const std::vector<std::string>& headers,
                                                     double connect_seconds) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK)
    return fail(ErrorCode::kInternal, "libcurl: {}", curl_easy_strerror(started));
  CTXGEN_CHECK(check_url(base));
  std::unique_ptr<HttpClient> client(new HttpClient());
  Impl& impl = *client->impl_;
  impl.curl = curl_easy_init();
  if (impl.curl == nullptr) return fail(ErrorCode::kResourceLimit, "libcurl: out of memory");
  impl.base = base;
  while (impl.base.ends_with('/')) impl.base.pop_back();
  if (const char* netrc = std::getenv("NETRC")) impl.netrc = netrc;
  impl.connect_ms = std::max(1L, static_cast<long>(connect_seconds * 1000));
  CTXGEN_CHECK(impl.add_header("Expect:"));  // a server that does not know it costs a second
  for (const std::string& line : headers) CTXGEN_CHECK(impl.add_header(line));
  return client;
}

HttpReply HttpClient::get(std::string_view path, const Take& take, const GoOn& go_on) {
  Exchange exchange{.take = &take, .go_on = &go_on};
  impl_->prepare(path, exchange);
  HttpReply reply = impl_->perform(exchange);
  if (reply.done() && reply.status != 200)
    reply.problem = std::format("HTTP {} to a GET", reply.status);
  return reply;
}

HttpReply HttpClient::head(std::string_view path, const GoOn& go_on) {
  Exchange exchange{.go_on = &go_on};
  impl_->prepare(path, exchange);
  impl_->set(CURLOPT_NOBODY, 1L);
  return impl_->perform(exchange);
}

HttpReply HttpClient::put(std::string_view path, std::span<const std::byte> body,
                          const GoOn& go_on) {
  Exchange exchange{.go_on = &go_on, .body = body};
  impl_->prepare(path, exchange);
  impl_->set(CURLOPT_UPLOAD, 1L);
  impl_->set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body.size()));
  impl_->set(CURLOPT_READFUNCTION, &on_send);
  impl_->set(CURLOPT_READDATA, &exchange);
  impl_->set(CURLOPT_SEEKFUNCTION, &on_seek);
  impl_->set(CURLOPT_SEEKDATA, &exchange);
  return impl_->perform(exchange);
}

}  // namespace ctxgen
