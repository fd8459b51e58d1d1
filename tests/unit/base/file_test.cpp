#include "ctxgen/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"
#include "unique_fd.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using test::code_of;

TEST(MapFile, GivesTheBytes) {
  const test::TempFolder temp;
  const Blob blob = map_file(temp.write("a", "hello")).value();
  EXPECT_EQ(as_text(blob.bytes), "hello");
  EXPECT_TRUE(map_file(temp.write("empty", "")).value().bytes.empty());
}

TEST(MapFile, StaysReadableWhenTheFileIsGone) {
  const test::TempFolder temp;
  const auto path = temp.write("a", "hello");
  const Blob blob = map_file(path).value();
  fs::remove(path);
  EXPECT_EQ(as_text(blob.bytes), "hello");
}

TEST(MapFile, SharesOneMappingPerFileWhileItIsHeld) {
  const test::TempFolder temp;
  const auto path = temp.write("a", "hello");
  fs::create_hard_link(path, temp / "b");
  const Blob first = map_file(path).value();
  EXPECT_EQ(map_file(temp / "b").value().bytes.data(), first.bytes.data());
  EXPECT_EQ(map_file_beneath(temp.path(), "a").value().bytes.data(), first.bytes.data());
}

TEST(MapFile, DoesNotShareWithAFileThatWasReplacedOrGrew) {
  const test::TempFolder temp;
  const auto path = temp.write("a", "hello");
  const Blob old = map_file(path).value();
  temp.write("b", "world");
  fs::rename(temp / "b", path);
  EXPECT_EQ(as_text(map_file(path).value().bytes), "world");
  EXPECT_EQ(as_text(old.bytes), "hello");
  std::ofstream(path, std::ios::app) << "!";
  EXPECT_EQ(as_text(map_file(path).value().bytes), "world!");
}

TEST(MapFile, RefusesWhatIsNoRegularFile) {
  const test::TempFolder temp;
  const auto fifo = temp / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(code_of(map_file(fifo)), ErrorCode::kIoError);  // and does not wait for a writer
  EXPECT_EQ(code_of(map_file_beneath(temp.path(), "fifo")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(map_file("/dev/zero")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(map_file(temp.path())), ErrorCode::kIoError);
  EXPECT_EQ(code_of(map_file_beneath(temp.path(), ".")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(map_file(temp / "missing")), ErrorCode::kIoError);
}

TEST(MapFileBeneath, KeepsTheErrorsOfBothKindsApart) {
  const test::TempFolder temp;
  EXPECT_EQ(code_of(map_file_beneath(temp.path(), "missing")), ErrorCode::kIoError);
  EXPECT_EQ(code_of(map_file_beneath(temp.path(), "../x")), ErrorCode::kInvalidGraph);
}

struct Pipe {
  UniqueFd out;
  UniqueFd in;
  Pipe() {
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
    out = UniqueFd(ends[0]);
    in = UniqueFd(ends[1]);
  }
};

void send(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

TEST(ReadStream, PutsShortReadsTogether) {
  Pipe pipe;
  const std::string text(300'000, 'x');
  std::jthread writer([&] {
    send(pipe.in.get(), "a");
    send(pipe.in.get(), text);
    pipe.in.reset();
  });
  const Blob blob = read_stream(pipe.out.get(), 1'000'000).value();
  EXPECT_EQ(as_text(blob.bytes), "a" + text);
}

TEST(ReadStream, StopsAtTheLimit) {
  const auto read_with_limit = [](std::uint64_t limit) {
    Pipe pipe;
    send(pipe.in.get(), "12345");
    pipe.in.reset();
    return code_of(read_stream(pipe.out.get(), limit));
  };
  EXPECT_EQ(read_with_limit(5), test::kOk);
  EXPECT_EQ(read_with_limit(4), ErrorCode::kResourceLimit);
  EXPECT_EQ(read_with_limit(0), ErrorCode::kResourceLimit);
  EXPECT_EQ(read_with_limit(~std::uint64_t{0}), test::kOk);
}

TEST(ReadStream, WaitsForANonBlockingStream) {
  Pipe pipe;
  ASSERT_EQ(::fcntl(pipe.out.get(), F_SETFL, O_NONBLOCK), 0);
  std::jthread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    send(pipe.in.get(), "late");
    pipe.in.reset();
  });
  EXPECT_EQ(as_text(read_stream(pipe.out.get(), 100).value().bytes), "late");
}

TEST(ReadStream, IsNotEndedByASignal) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};  // without SA_RESTART: read(2) fails with EINTR
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  Pipe pipe;
  const pthread_t reader = ::pthread_self();
  std::jthread writer([&] {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ::pthread_kill(reader, SIGUSR1);
    }
    send(pipe.in.get(), "whole");
    pipe.in.reset();
  });
  EXPECT_EQ(as_text(read_stream(pipe.out.get(), 100).value().bytes), "whole");
  writer.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(ReadStream, ReportsABadDescriptor) {
  EXPECT_EQ(code_of(read_stream(-1, 10)), ErrorCode::kIoError);
}

}  // namespace
}  // namespace ctxgen
