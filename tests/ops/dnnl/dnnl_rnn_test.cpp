#include "reference.h"

namespace ctxgen::testing {
namespace {

constexpr std::int64_t kSteps = 4, kBatch = 3, kInputs = 5, kHidden = 7;

struct RnnCase {
  const char* op;
  const char* direction;
  bool bias, initial, batch_first;
  int linear_before_reset = 0;
};

std::int64_t gates_of(const std::string& op) { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }

std::vector<RnnCase> cases() {
  std::vector<RnnCase> all;
  for (const char* op : {"LSTM", "GRU", "RNN"})
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (const int form : {0, 1, 2, 3}) {
        all.push_back({op, direction, form % 2 == 0, form > 1, false});
        if (std::string(op) == "GRU") {
          all.push_back(all.back());
          all.back().linear_before_reset = 1;
        }
      }
  return all;
}

struct Built {
  std::vector<std::string> inputs;
  std::string y;
};

Built build(TestGraph& g, const RnnCase& c, std::vector<Attribute> more = {}) {
  const std::int64_t d = std::string(c.direction) == "bidirectional" ? 2 : 1;
  const std::int64_t rows = gates_of(c.op) * kHidden;
  const Dims state = c.batch_first ? Dims{kBatch, d, kHidden} : Dims{d, kBatch, kHidden};
  Built built;
  built.inputs = {
      g.input("x", c.batch_first ? Dims{kBatch, kSteps, kInputs} : Dims{kSteps, kBatch, kInputs}),
      g.constant({d, rows, kInputs}), g.constant({d, rows, kHidden}),
      c.bias ? g.constant({d, 2 * rows}) : ""};
  if (c.initial) {
    built.inputs.push_back("");
    built.inputs.push_back(g.input("h", state));
    if (std::string(c.op) == "LSTM") built.inputs.push_back(g.input("c", state));
  }
  std::vector<Attribute> attributes{attr("hidden_size", kHidden),
                                    attr("direction", std::string(c.direction))};
  if (c.batch_first) attributes.push_back(attr("layout", 1));
  if (std::string(c.op) == "GRU")
    attributes.push_back(attr("linear_before_reset", c.linear_before_reset));
  for (Attribute& one : more) attributes.push_back(std::move(one));
  const std::size_t outputs = std::string(c.op) == "LSTM" ? 3 : 2;
  built.y = g.add(c.op, built.inputs, std::move(attributes), outputs);
  const std::string stem = built.y.substr(0, built.y.size() - 1);
  for (std::size_t i = 0; i < outputs; ++i) g.output(stem + std::to_string(i));
  return built;
}

TEST(DnnlRnn, EveryCellDirectionAndInput) {
  for (const RnnCase& c : cases()) {
    SCOPED_TRACE(std::format("{} {} bias {} initial {} lbr {}", c.op, c.direction, c.bias,
                             c.initial, c.linear_before_reset));
    TestGraph g(14);
    build(g, c);
    expect_same(g, 2e-5);
  }
}

TEST(DnnlRnn, BatchFirst) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    SCOPED_TRACE(op);
    TestGraph g(14);
    build(g, {op, "bidirectional", true, true, true});
    expect_same(g, 2e-5);
  }
}

/// A forward LSTM step by step in double precision.
TEST(DnnlRnn, LstmReference) {
  TestGraph g(14);
  const Built built = build(g, {"LSTM", "forward", true, true, false});
  const auto value = [&](std::size_t i) {
    return [&, i](std::int64_t k) { return at(g.value(built.inputs[i]), k); };
  };
  const auto x = value(0), w = value(1), r = value(2), b = value(3), h0 = value(5), c0 = value(6);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  std::vector<double> h(kBatch * kHidden), c(kBatch * kHidden), y;
  for (std::int64_t i = 0; i < kBatch * kHidden; ++i) {
    h[static_cast<std::size_t>(i)] = h0(i);
    c[static_cast<std::size_t>(i)] = c0(i);
  }
  for (std::int64_t t = 0; t < kSteps; ++t) {
    std::vector<double> next = h;
    for (std::int64_t n = 0; n < kBatch; ++n)
      for (std::int64_t u = 0; u < kHidden; ++u) {
        double gate[4];
        for (std::int64_t k = 0; k < 4; ++k) {
          const std::int64_t row = k * kHidden + u;
          gate[k] = b(row) + b(4 * kHidden + row);
          for (std::int64_t i = 0; i < kInputs; ++i)
            gate[k] += w(row * kInputs + i) * x((t * kBatch + n) * kInputs + i);
          for (std::int64_t i = 0; i < kHidden; ++i)
            gate[k] += r(row * kHidden + i) * h[static_cast<std::size_t>(n * kHidden + i)];
        }
        double& cell = c[static_cast<std::size_t>(n * kHidden + u)];
        cell = sigmoid(gate[2]) * cell + sigmoid(gate[0]) * std::tanh(gate[3]);
        next[static_cast<std::size_t>(n * kHidden + u)] = sigmoid(gate[1]) * std::tanh(cell);
      }
    h = next;
    y.insert(y.end(), h.begin(), h.end());
  }
  expect_reference(g, built.y, y, 1e-5);
  expect_same(g, 2e-5);
}

TEST(DnnlRnn, ReluCellAndWholeSequences) {
  TestGraph g(14);
  Attribute relu = attr("activations", 0);
  relu.kind = AttributeKind::kStrings;
  relu.strings = {"Relu"};
  build(g, {"RNN", "forward", true, false, false}, {relu});
  expect_same(g, 2e-5);
}

/// With AVX-512 and one row of a batch, layers of so many multiplications are oneDNN's.
TEST(DnnlRnn, LongLayersOfOneRow) {
  constexpr std::int64_t kLong = 90, kWide = 160;
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    SCOPED_TRACE(op);
    const std::int64_t rows = gates_of(op) * kWide;
    TestGraph g(14);
    std::vector<Attribute> attributes{attr("hidden_size", kWide),
                                      attr("direction", std::string("bidirectional"))};
    if (gates_of(op) == 3) attributes.push_back(attr("linear_before_reset", 1));
    g.output(
        g.add(op,
              {g.input("x", {kLong, 1, 2 * kWide}), g.constant({2, rows, 2 * kWide}, -0.1F, 0.1F),
               g.constant({2, rows, kWide}, -0.05F, 0.05F), g.constant({2, 2 * rows})},
              std::move(attributes)));
    expect_same(g, 2e-5);
  }
}

/// What exporters write behind a recurrent layer.
TEST(DnnlRnn, BetweenOtherNodes) {
  TestGraph g(14);
  const std::string x = g.input("x", {2, 8, 6, 5});
  const std::string t = g.add("Transpose", {g.add("Relu", {x})}, {attr("perm", List{3, 0, 1, 2})});
  const std::string s = g.add("Reshape", {t, g.ints({5, 2, 48})});
  const std::string y =
      g.add("GRU", {s, g.constant({2, 18, 48}), g.constant({2, 18, 6}), g.constant({2, 36})},
            {attr("hidden_size", 6), attr("linear_before_reset", 1),
             attr("direction", std::string("bidirectional"))});
  const std::string p = g.add("Transpose", {y}, {attr("perm", List{0, 2, 1, 3})});
  const std::string q = g.add("Reshape", {p, g.ints({0, 0, -1})});
  g.output(g.add("MatMul", {q, g.constant({12, 10})}));
  expect_same(g, 5e-5);
}

}  // namespace
}  // namespace ctxgen::testing
