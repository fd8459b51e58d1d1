#include "reference.h"

namespace ctxgen::testing {
namespace {

struct ReduceCase {
  const char* op;
  double start;
  std::function<double(double, double)> fold;
  std::function<double(double, double)> finish;  // of the fold and the number of elements
};

double kept(double value, double) { return value; }
double sum(double a, double x) { return a + x; }

std::vector<ReduceCase> cases() {
  const double huge = std::numeric_limits<double>::infinity();
  return {
      {"ReduceL1", 0, [](double a, double x) { return a + std::abs(x); }, kept},
      {"ReduceL2", 0, [](double a, double x) { return a + x * x; },
       [](double v, double) { return std::sqrt(v); }},
      {"ReduceLogSum", 0, sum, [](double v, double) { return std::log(v); }},
      {"ReduceLogSumExp", 0, [](double a, double x) { return a + std::exp(x); },
       [](double v, double) { return std::log(v); }},
      {"ReduceMax", -huge, [](double a, double x) { return std::max(a, x); }, kept},
      {"ReduceMean", 0, sum, [](double v, double n) { return v / n; }},
      {"ReduceMin", huge, [](double a, double x) { return std::min(a, x); }, kept},
      {"ReduceProd", 1, [](double a, double x) { return a * x; }, kept},
      {"ReduceSum", 0, sum, kept},
      {"ReduceSumSquare", 0, [](double a, double x) { return a + x * x; }, kept},
  };
}

constexpr std::int64_t kShape[] = {3, 5, 4, 37};

std::vector<double> reference(const TestGraph& g, const std::string& x, const ReduceCase& c,
                              const std::vector<bool>& reduced) {
  std::vector<double> out;
  std::vector<double> counts;
  for (std::int64_t i = 0; i < 3 * 5 * 4 * 37; ++i) {
    std::int64_t rest = i, index = 0, stride = 1;
    for (std::size_t d = 4; d-- > 0;) {
      if (!reduced[d]) {
        index += rest % kShape[d] * stride;
        stride *= kShape[d];
      }
      rest /= kShape[d];
    }
    const auto at_out = static_cast<std::size_t>(index);
    if (out.size() <= at_out) {
      out.resize(at_out + 1, c.start);
      counts.resize(at_out + 1, 0.0);
    }
    out[at_out] = c.fold(out[at_out], at(g.value(x), i));
    counts[at_out] += 1;
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = c.finish(out[i], counts[i]);
  return out;
}

/// A positive input: the logarithm of a sum is one.
std::string positive_input(TestGraph& g) {
  const std::string x = g.input("x", {3, 5, 4, 37});
  Tensor values = g.value(x);
  float* data = const_cast<float*>(values.elements<float>().data());  // ours, not shared yet
  for (std::int64_t i = 0; i < values.element_count(); ++i) data[i] = std::abs(data[i]) + 0.25F;
  return x;
}

TEST(DnnlReduce, EveryModeOverEveryKindOfAxes) {
  for (const ReduceCase& c : cases()) {
    for (const List& axes :
         {List{3}, List{-2}, List{1}, List{0}, List{2, 3}, List{0, 2}, List{1, 2, 3}, List{0, 3}}) {
      for (const int keep : {0, 1}) {
        TestGraph g(11);
        const std::string x = positive_input(g);
        const std::string y = g.add(c.op, {x}, {attr("axes", axes), attr("keepdims", keep)});
        SCOPED_TRACE(std::format("{} {} keep {}", c.op, axes[0], keep));
        g.output(y);
        std::vector<bool> reduced(4);
        for (const std::int64_t axis : axes)
          reduced[static_cast<std::size_t>((axis + 4) % 4)] = true;
        expect_reference(g, y, reference(g, x, c, reduced), 1e-5);
        expect_same(g, 1e-5);
      }
    }
  }
}

TEST(DnnlReduce, AxesAsInputAndAbsent) {
  for (const char* op : {"ReduceSum", "ReduceMean"}) {
    TestGraph g(18);
    g.output(g.add(op, {g.input("x", {2, 3, 50}), g.ints({-1})}, {attr("keepdims", 0)}));
    expect_same(g);
    TestGraph all(13);
    all.output(all.add(op, {all.input("x", {2, 3, 50})}));
    expect_same(all);
  }
}

/// Behind a convolution the source is channels-last.
TEST(DnnlReduce, BehindAConvolution) {
  for (const List& axes : {List{1}, List{2, 3}, List{2}, List{3}, List{0, 1}, List{1, 2, 3}}) {
    for (const char* op : {"ReduceMean", "ReduceMax"}) {
      SCOPED_TRACE(axes[0]);
      TestGraph g(11);
      const std::string c = g.add("Conv", {g.input("x", {2, 3, 9, 8}), g.constant({20, 3, 3, 3})});
      const std::string m = g.add(op, {c}, {attr("axes", axes)});
      g.output(g.add("Sub", {c, m}));
      expect_same(g, 1e-5);
    }
  }
}

}  // namespace
}  // namespace ctxgen::testing
