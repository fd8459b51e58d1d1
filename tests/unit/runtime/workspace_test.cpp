// Sessions of a group (ep.share_ep_contexts) and the context binaries that they hold together.
#include "ctxgen/ctxfile/workspace.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "ctxgen/runtime/session.h"

#include "code_of.h"
#include "model_bytes.h"
#include "temp_folder.h"
#include "toy_loader.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;
using test::kToySource;
using test::ModelBytes;
using test::notes_of;
using test::TempFolder;
using test::toy_context;
using test::toy_program;

enum class Join { kNone, kShare, kShareAndStop };

class Group : public ::testing::Test {
 protected:
  /// m_ctx.onnx with one node of partition `partition` in `bin`.
  void write_model(const std::string& name, const std::string& bin, const std::string& context) {
    ModelBytes model;
    model.input("x", {2}).output("y", {2});
    model.add(ModelBytes::node("ep", "EPContext", {"x"}, {"y"},
                               {{"main_context", 1},
                                {"embed_mode", 0},
                                {"ep_cache_context", bin},
                                {"partition_name", "p0"},
                                {"source", kToySource},
                                {"notes", notes_of(context, "p0")}},
                               "com.microsoft"));
    folder_.write(name, model.text());
  }

  Result<std::unique_ptr<Session>> open(const std::string& name, Join join,
                                        VerifyBlobs verify = VerifyBlobs::kNever) {
    SessionOptions options;
    options.loaders = {&test::toy_loader()};
    options.share_ep_contexts = join != Join::kNone;
    options.stop_share_ep_contexts = join == Join::kShareAndStop;
    options.verify_blobs = verify;
    return Session::open(folder_ / name, options);
  }

  /// Damages a byte in place and leaves the time stamps alone: who opens the file sees it.
  void damage(const std::string& name, std::uint64_t at) {
    const auto path = folder_ / name;
    struct stat before{};
    ASSERT_EQ(::stat(path.c_str(), &before), 0);
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const char byte = static_cast<char>(file.get() ^ 1);
      file.seekp(static_cast<std::streamoff>(at));
      file.put(byte);
    }
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  static float first_output(const Session& session) {
    Tensor x = *Tensor::allocate(DataType::kFloat, Dims{2});
    const float values[2] = {10, 20};
    std::memcpy(x.mutable_bytes().data(), values, sizeof values);
    const auto outputs = session.run({{{"x", x}}});
    EXPECT_EQ(code_of(outputs), kOk);
    float y = 0;
    if (outputs) std::memcpy(&y, outputs->front().bytes().data(), sizeof y);
    return y;
  }

  void SetUp() override {
    folder_.write("m.bin", context_);
    write_model("a.onnx", "m.bin", context_);
    write_model("b.onnx", "m.bin", context_);
  }

  TempFolder folder_;
  const std::string context_ = toy_context({toy_program("p0")}, {1.0F});
};

TEST_F(Group, TheSecondSessionDoesNotOpenTheBinary) {
  const auto first = open("a.onnx", Join::kShare);
  ASSERT_EQ(code_of(first), kOk);
  damage("m.bin", 0);
  const auto second = open("b.onnx", Join::kShare);
  ASSERT_EQ(code_of(second), kOk);
  EXPECT_EQ(first_output(**second), 11);
  EXPECT_EQ(code_of(open("b.onnx", Join::kNone)), ErrorCode::kCorruptContext)
      << "it opens the file";
}

TEST_F(Group, TheSameModelMayBeOpenedTwice) {
  const auto first = open("a.onnx", Join::kShare);
  const auto second = open("a.onnx", Join::kShare);
  ASSERT_EQ(code_of(first), kOk);
  ASSERT_EQ(code_of(second), kOk);
  EXPECT_EQ(first_output(**first), first_output(**second));
}

TEST_F(Group, LivesWhileAnySessionOfItDoes) {
  const std::string other = toy_context({toy_program("p0")}, {5.0F});
  folder_.write("other.bin", other);
  write_model("c.onnx", "other.bin", other);
  auto first = open("a.onnx", Join::kShare);
  auto last = open("c.onnx", Join::kShare);
  ASSERT_EQ(code_of(first), kOk);
  ASSERT_EQ(code_of(last), kOk);
  first->reset();
  damage("m.bin", 0);
  auto again = open("b.onnx", Join::kShare);  // parked by a session that is gone
  ASSERT_EQ(code_of(again), kOk);
  EXPECT_EQ(first_output(**again), 11);
  last->reset();
  EXPECT_EQ(first_output(**again), 11);
  again->reset();
  EXPECT_EQ(code_of(open("b.onnx", Join::kShare)), ErrorCode::kCorruptContext) << "a new group";
}

TEST_F(Group, EndsForLaterSessionsWhenItIsStopped) {
  const auto first = open("a.onnx", Join::kShare);
  const auto last = open("b.onnx", Join::kShareAndStop);
  ASSERT_EQ(code_of(first), kOk);
  ASSERT_EQ(code_of(last), kOk);
  damage("m.bin", 0);
  EXPECT_EQ(code_of(open("a.onnx", Join::kShare)), ErrorCode::kCorruptContext);
  EXPECT_EQ(first_output(**first), 11);
  EXPECT_EQ(first_output(**last), 11);
}

TEST_F(Group, StoppingNeedsAGroup) {
  SessionOptions options;
  options.stop_share_ep_contexts = true;
  EXPECT_EQ(code_of(Session::open(folder_ / "a.onnx", options)), ErrorCode::kInvalidArgument);
}

TEST_F(Group, SeesThatABinaryWasReplaced) {
  const auto old = open("a.onnx", Join::kShare);
  ASSERT_EQ(code_of(old), kOk);
  const std::string other = toy_context({toy_program("p0")}, {7.0F});
  folder_.write("m.tmp", other);
  std::filesystem::rename(folder_ / "m.tmp", folder_ / "m.bin");
  EXPECT_EQ(code_of(open("b.onnx", Join::kShare)), ErrorCode::kCorruptContext)
      << "another compile's";
  write_model("b.onnx", "m.bin", other);
  const auto fresh = open("b.onnx", Join::kShare);
  ASSERT_EQ(code_of(fresh), kOk);
  EXPECT_EQ(first_output(**fresh), 17);
  EXPECT_EQ(first_output(**old), 11) << "what is mapped stays";
}

TEST_F(Group, VerifiesBlobsForTheFirstWhoAsks) {
  const auto lax = open("a.onnx", Join::kShare);
  ASSERT_EQ(code_of(lax), kOk);
  damage("m.bin", context_.size() - 1);  // the weight
  EXPECT_EQ(code_of(open("b.onnx", Join::kShare)), kOk);
  EXPECT_EQ(code_of(open("b.onnx", Join::kShare, VerifyBlobs::kAlways)),
            ErrorCode::kCorruptContext);
}

TEST_F(Group, AFailureIsNobodyElses) {
  const auto group = Workspace::join();
  int calls = 0;
  const auto fails = [&]() -> Result<ContextReader> {
    ++calls;
    return fail(ErrorCode::kIoError, "no descriptor left");
  };
  const auto opens = [&]() -> Result<ContextReader> {
    ++calls;
    return ContextReader::open(
        Blob::own(std::vector<std::byte>(std::as_bytes(std::span(context_)).begin(),
                                         std::as_bytes(std::span(context_)).end())),
        "m.bin");
  };
  const auto get = [&](const Workspace::Opener& open) {
    return group->get(folder_.path(), "m.bin", VerifyBlobs::kNever, open);
  };
  EXPECT_EQ(code_of(get(fails)), ErrorCode::kIoError);
  const auto first = get(opens);
  const auto second = get(fails);
  ASSERT_EQ(code_of(first), kOk);
  ASSERT_EQ(code_of(second), kOk);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(calls, 2);
}

TEST_F(Group, EightThreadsCreateShareAndDestroySessions) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const auto join = (t + i) % 7 == 0 ? Join::kShareAndStop : Join::kShare;
        const auto session = open(i % 2 == 0 ? "a.onnx" : "b.onnx", join,
                                  i % 5 == 0 ? VerifyBlobs::kAlways : VerifyBlobs::kNever);
        if (!session || first_output(**session) != 11) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ctxgen
