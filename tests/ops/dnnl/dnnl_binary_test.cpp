#include "reference.h"

namespace ctxgen::testing {
namespace {

struct Shapes {
  Dims a, b;
};

const Shapes kBroadcasts[] = {
    {{2, 3, 4, 5}, {2, 3, 4, 5}},
    {{2, 3, 4, 5}, {1}},
    {{2, 3, 4, 5}, {5}},
    {{2, 3, 4, 5}, {3, 1, 1}},
    {{2, 3, 4, 5}, {1, 3, 4, 1}},
    {{2, 3, 4, 5}, {4, 1}},
    {{2, 3, 4, 5}, {2, 1, 1, 1}},
    {{3, 1, 1}, {2, 3, 4, 5}},
    {{2, 1, 4, 1}, {3, 1, 5}},
    {{7}, {7}},
    {{4, 1}, {1, 6}},
};

TEST(DnnlBinary, NumpyBroadcasting) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    for (const auto& [a, b] : kBroadcasts) {
      SCOPED_TRACE(std::format("{} {} {}", op, to_string(a), to_string(b)));
      TestGraph values(13);
      values.output(values.add(op, {values.input("a", a), values.input("b", b)}));
      expect_same(values);
      TestGraph right(13);
      right.output(right.add(op, {right.input("a", a), right.constant(b, 0.5F, 2.0F)}));
      expect_same(right);
      TestGraph left(13);
      left.output(left.add(op, {left.constant(a), left.input("b", b)}));
      expect_same(left);
    }
  }
}

TEST(DnnlBinary, SameOperandTwice) {
  TestGraph g(13);
  const std::string x = g.input("x", {2, 3, 4});
  g.output(g.add("Mul", {x, x}));
  expect_same(g);
}

TEST(DnnlBinary, BroadcastAndAxisBeforeOpset7) {
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(op);
      TestGraph g(6);
      const std::string x = g.input("x", {2, 3, 4, 5});
      const std::string b = constant ? g.constant({3, 4}, 0.5F, 2.0F) : g.input("b", {3, 4});
      g.output(g.add(op, {x, b}, {attr("broadcast", 1), attr("axis", 1)}));
      const std::string tail = constant ? g.constant({4, 5}, 0.5F, 2.0F) : g.input("t", {4, 5});
      g.output(g.add(op, {x, tail}, {attr("broadcast", 1)}));
      expect_same(g);
    }
  }
}

TEST(DnnlBinary, VariadicOperators) {
  for (const char* op : {"Sum", "Mean", "Max", "Min"}) {
    for (const int count : {1, 2, 4}) {
      SCOPED_TRACE(std::format("{} of {}", op, count));
      TestGraph g(13);
      std::vector<std::string> inputs;
      const Dims dims[] = {{2, 3, 4}, {4}, {3, 1}, {2, 3, 4}};
      for (int i = 0; i < count; ++i) {
        inputs.push_back(i == 1 ? g.constant(dims[i])
                                : g.input(std::string(1, static_cast<char>('a' + i)), dims[i]));
      }
      g.output(g.add(op, inputs));
      expect_same(g);
    }
  }
}

}  // namespace
}  // namespace ctxgen::testing
