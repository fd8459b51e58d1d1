#include "reference.h"

namespace ctxgen::testing {
namespace {

TEST(DnnlSoftmax, EveryAxis) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const std::int64_t axis : {-4, -1, 0, 1, 2, 3}) {
      SCOPED_TRACE(std::format("{} axis {}", op, axis));
      TestGraph g(13);
      g.output(g.add(op, {g.input("x", {2, 3, 4, 5})}, {attr("axis", axis)}));
      expect_same(g);
    }
  }
}

TEST(DnnlSoftmax, FlattenedBeforeOpset13) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const Dims& dims : {Dims{2, 3, 4, 5}, Dims{2, 30, 1, 1}, Dims{2, 1, 1, 6}, Dims{3, 7}}) {
      for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(dims.size()); ++axis) {
        SCOPED_TRACE(std::format("{} {} axis {}", op, to_string(dims), axis));
        TestGraph g(11);
        g.output(g.add(op, {g.input("x", dims)}, {attr("axis", axis)}));
        expect_same(g);
      }
    }
  }
}

TEST(DnnlSoftmax, DoublePrecisionReference) {
  TestGraph g(13);
  const std::string x = g.input("x", {3, 50});
  const std::string y = g.add("Softmax", {x});
  g.output(y);
  std::vector<double> expected;
  for (std::int64_t r = 0; r < 3; ++r) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < 50; ++i) sum += std::exp(at(g.value(x), r * 50 + i));
    for (std::int64_t i = 0; i < 50; ++i)
      expected.push_back(std::exp(at(g.value(x), r * 50 + i)) / sum);
  }
  expect_reference(g, y, expected);
  expect_same(g);
}

}  // namespace
}  // namespace ctxgen::testing
