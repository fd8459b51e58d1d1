#include "open_beneath.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "code_of.h"
#include "temp_folder.h"

namespace ctxgen {
namespace {

namespace fs = std::filesystem;
using test::code_of;

/// Both ways must give the same answers.
class OpenBeneath : public testing::TestWithParam<BeneathMethod> {
 protected:
  OpenBeneath() {
    temp_.write("model/weights.bin", "inside");
    temp_.write("model/sub/deep.bin", "deep");
    temp_.write("outside.bin", "outside");
    folder_ = temp_ / "model";
  }
  void SetUp() override {
    if (GetParam() != BeneathMethod::kOpenat2) return;
    const auto probe = open("weights.bin");
    if (!probe) GTEST_SKIP() << "openat2 is not available here: " << probe.error().message;
  }
  Result<UniqueFd> open(std::string_view relative) const {
    return open_beneath(folder_, relative, GetParam());
  }
  std::string text_of(std::string_view relative) const {
    auto fd = open(relative);
    if (!fd) return "error: " + fd.error().message;
    char text[64] = {};
    const ssize_t length = ::read(fd->get(), text, sizeof(text));
    return length < 0 ? "cannot read" : std::string(text, static_cast<std::size_t>(length));
  }
  void link(std::string_view to, std::string_view name) const {
    fs::create_symlink(to, folder_ / name);
  }

  test::TempFolder temp_;
  fs::path folder_;
};

TEST_P(OpenBeneath, OpensWhatLiesBelow) {
  EXPECT_EQ(text_of("weights.bin"), "inside");
  EXPECT_EQ(text_of("./weights.bin"), "inside");
  EXPECT_EQ(text_of("sub//deep.bin"), "deep");
  EXPECT_EQ(text_of("sub/./deep.bin"), "deep");
}

TEST_P(OpenBeneath, RefusesPathsThatSayTheyLeave) {
  for (std::string_view path : {std::string_view("../outside.bin"), std::string_view(".."),
                                std::string_view("sub/../weights.bin"), std::string_view("sub/.."),
                                std::string_view("/etc/passwd"), std::string_view(""),
                                std::string_view("weights.bin\0x", 13)})
    EXPECT_EQ(code_of(open(path)), ErrorCode::kInvalidGraph) << path;
}

TEST_P(OpenBeneath, NamesThatOnlyLookLikeDotsAreNames) {
  temp_.write("model/..data", "dots");
  temp_.write("model/...", "three");
  EXPECT_EQ(text_of("..data"), "dots");
  EXPECT_EQ(text_of("..."), "three");
}

TEST_P(OpenBeneath, FollowsLinksThatStayInside) {
  link("weights.bin", "same");
  link("sub/deep.bin", "down");
  link("../weights.bin", "sub/up");
  link("sub", "folder");
  link("../sub/../same", "sub/chain");
  EXPECT_EQ(text_of("same"), "inside");
  EXPECT_EQ(text_of("down"), "deep");
  EXPECT_EQ(text_of("sub/up"), "inside");
  EXPECT_EQ(text_of("folder/deep.bin"), "deep");
  EXPECT_EQ(text_of("folder/up"), "inside");
  EXPECT_EQ(text_of("sub/chain"), "inside");
}

TEST_P(OpenBeneath, RefusesLinksThatLeave) {
  link("../outside.bin", "up");
  link("../../outside.bin", "sub/up2");
  link("..", "parent");
  link("/etc/passwd", "absolute");
  link((folder_ / "weights.bin").string(), "absolute_inside");
  link("sub/../../outside.bin", "over");
  link("up", "second");
  for (std::string_view path :
       {"up", "sub/up2", "parent/outside.bin", "absolute", "absolute_inside", "over", "second"})
    EXPECT_EQ(code_of(open(path)), ErrorCode::kInvalidGraph) << path;
}

TEST_P(OpenBeneath, ReportsWhatCannotBeOpened) {
  link("loop2", "loop1");
  link("loop1", "loop2");
  link("missing", "dangling");
  for (std::string_view path : {"missing", "sub/missing", "weights.bin/x", "loop1", "dangling"})
    EXPECT_EQ(code_of(open(path)), ErrorCode::kIoError) << path;
  EXPECT_EQ(code_of(open_beneath(folder_ / "missing", "x", GetParam())), ErrorCode::kIoError);
  EXPECT_EQ(code_of(open_beneath(folder_ / "weights.bin", "x", GetParam())), ErrorCode::kIoError);
}

TEST_P(OpenBeneath, FollowsALinkThatIsTheFolderItself) {
  fs::create_symlink("model", temp_ / "alias");
  EXPECT_EQ(code_of(open_beneath(temp_ / "alias", "weights.bin", GetParam())), test::kOk);
}

std::string name_of_method(const testing::TestParamInfo<BeneathMethod>& method) {
  if (method.param == BeneathMethod::kOpenat2) return "Openat2";
  return method.param == BeneathMethod::kStepwise ? "Stepwise" : "Auto";
}

INSTANTIATE_TEST_SUITE_P(Methods, OpenBeneath,
                         testing::Values(BeneathMethod::kOpenat2, BeneathMethod::kStepwise,
                                         BeneathMethod::kAuto),
                         name_of_method);

}  // namespace
}  // namespace ctxgen
