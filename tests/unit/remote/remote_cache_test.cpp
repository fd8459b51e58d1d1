#include "ctxgen/remote/remote_cache.h"

#include <string>

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

constexpr const char* kNowhere =
    "http://127.0.0.1:9";  // the port of "discard", which nothing listens to

class RemoteCacheTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<RemoteCache>> open(const std::string& url,
                                            const std::filesystem::path& headers = {}) {
    return RemoteCache::open({.url = url, .headers = headers, .seconds = 1}, *local_);
  }
  test::TempFolder folder_;
  std::unique_ptr<CacheFolder> local_ =
      CacheFolder::open(folder_.path() / "cache", 1 << 20).value();
};

TEST_F(RemoteCacheTest, TakesHttpOnlyAndNoCredentials) {
  for (const char* url :
       {"ftp://host", "file:///etc/passwd", "host:80", "", "http://", "http://h/?q", "http://h/#f",
        "http://h/?", "http://h/#", "http://user:secret@host", "http://user@host"})
    EXPECT_EQ(test::code_of(open(url)), ErrorCode::kInvalidArgument) << url;
  EXPECT_TRUE(open("https://host:1234/a/path/"));
}

TEST_F(RemoteCacheTest, ErrorsDoNotRepeatSecrets) {
  for (const char* url :
       {"http://user:secret@host", "http://user:secret@host:99999999/", "http://host/?token=secret",
        "http://host/#secret", "http://user:secret @host", "secret://host"})
    EXPECT_EQ(open(url).error().message.find("secret"), std::string::npos) << url;
  const auto headers = folder_.write("headers", "Authorization secret\n");
  EXPECT_EQ(open(kNowhere, headers).error().message.find("secret"), std::string::npos);
}

TEST_F(RemoteCacheTest, HeadersAreLinesWithNames) {
  for (const char* const text : {"no colon\n", ": no name\n", "A b: c\n", "A: \x01\n", "A;\n"})
    EXPECT_EQ(test::code_of(open(kNowhere, folder_.write("headers", text))),
              ErrorCode::kInvalidArgument)
        << text;
  EXPECT_EQ(test::code_of(open(kNowhere, folder_.write("headers", std::string(70000, 'a')))),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(test::code_of(open(kNowhere, folder_.path() / "missing")), ErrorCode::kIoError);
  EXPECT_TRUE(open(kNowhere, folder_.write("headers", "A: b\r\n\nX-Two: c")));
}

TEST_F(RemoteCacheTest, AServerThatIsAwayIsAnErrorOnce) {
  const auto remote = open(kNowhere).value();
  EXPECT_FALSE(remote->fetch({}, CacheKind::kOutput, {}));
  EXPECT_FALSE(remote->holds({}));
  remote->store({}, {}, {});
  const RemoteCounts counts = remote->finish();
  EXPECT_EQ(counts.errors, 1U);
  EXPECT_EQ(counts.hits + counts.misses + counts.stored, 0U);
  EXPECT_NE(counts.problem, "");
}

}  // namespace
}  // namespace ctxgen
