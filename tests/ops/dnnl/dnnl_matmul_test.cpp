#include <optional>

#include "reference.h"

namespace ctxgen::testing {
namespace {

struct GemmCase {
  bool trans_a, trans_b;
  float alpha, beta;
  std::optional<Dims> c;
  bool constant_b, constant_c;
};

std::vector<double> gemm_reference(const TestGraph& g, const std::string& a, const std::string& b,
                                   const std::string& c, const GemmCase& kase) {
  constexpr std::int64_t m = 3, k = 5, n = 4;
  std::vector<double> out;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (std::int64_t x = 0; x < k; ++x)
        sum += at(g.value(a), kase.trans_a ? x * m + i : i * k + x) *
               at(g.value(b), kase.trans_b ? j * k + x : x * n + j);
      sum *= kase.alpha;
      if (kase.c) {
        const Dims& d = *kase.c;
        const std::int64_t rows = d.size() == 2 ? d[0] : 1, columns = d.empty() ? 1 : d.back();
        sum += kase.beta * at(g.value(c), (rows == 1 ? 0 : i) * columns + (columns == 1 ? 0 : j));
      }
      out.push_back(sum);
    }
  return out;
}

void check_gemm_case(const GemmCase& kase, std::int64_t opset) {
  TestGraph g(opset);
  const std::string a = g.input("a", kase.trans_a ? Dims{5, 3} : Dims{3, 5});
  const Dims b_dims = kase.trans_b ? Dims{4, 5} : Dims{5, 4};
  const std::string b = kase.constant_b ? g.constant(b_dims) : g.input("b", b_dims);
  std::vector<std::string> inputs = {a, b};
  std::string c;
  if (kase.c) {
    c = kase.constant_c ? g.constant(*kase.c) : g.input("c", *kase.c);
    inputs.push_back(c);
  }
  std::vector<Attribute> attributes = {attr("transA", static_cast<int>(kase.trans_a)),
                                       attr("transB", static_cast<int>(kase.trans_b)),
                                       attr("alpha", kase.alpha), attr("beta", kase.beta)};
  if (opset < 7) attributes.push_back(attr("broadcast", 1));
  const std::string y = g.add("Gemm", inputs, std::move(attributes));
  g.output(y);
  expect_reference(g, y, gemm_reference(g, a, b, c, kase));
  expect_same(g);
}

TEST(DnnlGemm, TransposesFactorsAndShapesOfC) {
  const std::optional<Dims> shapes[] = {std::nullopt, Dims{4},    Dims{1, 4}, Dims{1},
                                        Dims{1, 1},   Dims{3, 1}, Dims{3, 4}};
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const float alpha : {1.0F, 0.5F})
        for (const auto& c : shapes)
          for (const bool constant_b : {false, true})
            for (const bool constant_c : {false, true}) {
              const float beta = alpha == 1.0F ? 1.0F : 2.0F;
              SCOPED_TRACE(std::format("transA {} transB {} alpha {} C {} constant B {} C {}",
                                       trans_a, trans_b, alpha, c ? to_string(*c) : "none",
                                       constant_b, constant_c));
              check_gemm_case({trans_a, trans_b, alpha, beta, c, constant_b, constant_c}, 11);
            }
}

TEST(DnnlGemm, ScalarC) { check_gemm_case({false, false, 1.0F, 1.0F, Dims{}, true, true}, 13); }

TEST(DnnlGemm, ConstantA) {
  TestGraph g(13);
  g.output(g.add("Gemm", {g.constant({3, 5}), g.input("b", {5, 4}), g.constant({4})},
                 {attr("alpha", 0.5F)}));
  expect_same(g);
}

struct MatMulCase {
  const char* name;
  Dims a, b;
  bool constant_a, constant_b;
};

TEST(DnnlMatMul, Shapes) {
  const MatMulCase cases[] = {
      {"2d constant", {7, 16}, {16, 9}, false, true},
      {"2d", {7, 16}, {16, 9}, false, false},
      {"one row", {1, 64}, {64, 33}, false, true},
      {"one row, packed", {1, 96}, {96, 128}, false, true},
      {"one column", {8, 64}, {64, 1}, false, true},
      {"batch by matrix", {2, 3, 5}, {5, 6}, false, true},
      {"batch by batch", {2, 3, 5}, {2, 5, 6}, false, false},
      {"constant batch", {2, 3, 5}, {2, 5, 6}, false, true},
      {"heads", {2, 3, 5, 4}, {2, 3, 4, 5}, false, false},
      {"broadcast batch", {2, 1, 5, 4}, {3, 4, 5}, false, false},
      {"matrix by batch", {5, 4}, {3, 4, 6}, false, false},
      {"vector by matrix", {5}, {5, 6}, false, true},
      {"vector by batch", {5}, {2, 5, 6}, false, false},
      {"matrix by vector", {3, 5}, {5}, false, true},
      {"batch by vector", {2, 3, 5}, {5}, false, false},
      {"constant left", {3, 5}, {5, 6}, true, false},
  };
  for (const MatMulCase& c : cases) {
    SCOPED_TRACE(c.name);
    TestGraph g(13);
    const std::string a = c.constant_a ? g.constant(c.a) : g.input("a", c.a);
    const std::string b = c.constant_b ? g.constant(c.b) : g.input("b", c.b);
    g.output(g.add("MatMul", {a, b}));
    expect_same(g);
  }
}

TEST(DnnlMatMul, DoublePrecisionReference) {
  TestGraph g(13);
  const std::string a = g.input("a", {4, 300}), b = g.constant({300, 5});
  const std::string y = g.add("MatMul", {a, b});
  g.output(y);
  std::vector<double> expected;
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 5; ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < 300; ++k)
        sum += at(g.value(a), i * 300 + k) * at(g.value(b), k * 5 + j);
      expected.push_back(sum);
    }
  expect_reference(g, y, expected);
  expect_same(g);
}

}  // namespace
}  // namespace ctxgen::testing
