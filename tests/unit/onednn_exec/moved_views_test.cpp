#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "ctxgen/onednn/op_kinds.h"

#include "layout/layout.h"
#include "plan/shapes.h"
#include "reference.h"

// Moves whose results are read by other moves are views: what they are views of must live as long as they do,
// and copies must be made where a reader wants dense bytes.
namespace ctxgen::onednn::test {
namespace {

std::size_t copies_in(Maker& maker) {
  std::vector<OpTiming> timings;
  EXPECT_TRUE(compile_and_run(maker, &timings));
  return static_cast<std::size_t>(std::ranges::count_if(timings, [](const OpTiming& t) {
    return t.implementation == "loop:copy" || t.implementation == "loop:index" ||
           t.implementation.starts_with("jit:uni");
  }));
}

Operand pointwise(Maker& maker, Operand src, std::int64_t channels) {
  return maker.op(kind::kConv, {src, maker.weight(Dims{channels, channels, 3, 3})},
                  {ints("pads", {1, 1, 1, 1})});
}

TEST(MovedViews, ShuffleIntoHalvesIsOneCopyForEach) {
  // ShuffleNetV2 as its authors export it: even channels and odd ones.
  Maker maker(1);
  const Operand x = pointwise(maker, maker.input(Dims{1, 8, 6, 5}), 8);
  const Operand pairs = maker.op(kind::kReshape, {x}, {ints("shape", {4, 2, 30})});
  const Operand apart = maker.op(kind::kTranspose, {pairs}, {ints("perm", {1, 0, 2})});
  const Operand halves = maker.op(kind::kReshape, {apart}, {ints("shape", {2, 1, 4, 6, 5})});
  const auto half = [&](std::int64_t i) {
    return maker.op(kind::kGather, {halves},
                    {integer("axis", 0), ints("indices", {i}), ints("index_dims", {})});
  };
  const Operand even = half(0), odd = half(-1);
  const Operand joined =
      maker.op(kind::kConcat, {even, pointwise(maker, odd, 4)}, {integer("axis", 1)});
  maker.output(pointwise(maker, joined, 8));
  expect_matches_reference(maker);
  // Channels-last and back at the ends, one half to a convolution, two parts joined.
  EXPECT_EQ(copies_in(maker), 5U);
}

TEST(MovedViews, ShuffleOfChannelsIsOneCopy) {
  for (const std::int64_t batch : {1, 2}) {
    Maker maker(2);
    const Operand x = pointwise(maker, maker.input(Dims{batch, 12, 5, 4}), 12);
    const Operand groups = maker.op(kind::kReshape, {x}, {ints("shape", {0, 3, 4, 5, 4})});
    const Operand swapped = maker.op(kind::kTranspose, {groups}, {ints("perm", {0, 2, 1, 3, 4})});
    const Operand shuffled = maker.op(kind::kReshape, {swapped}, {ints("shape", {0, 12, 5, 4})});
    maker.output(pointwise(maker, shuffled, 12));
    expect_matches_reference(maker);
    EXPECT_EQ(copies_in(maker), 3U) << batch;
  }
}

TEST(MovedViews, HeadsAreCopiedOnce) {
  // [tokens, 3, heads, width] as queries, keys and values.
  Maker maker(3);
  const Operand x =
      maker.op(kind::kMatmul, {maker.input(Dims{2, 7, 24}), maker.weight(Dims{24, 72})});
  const Operand heads = maker.op(kind::kReshape, {x}, {ints("shape", {2, 7, 3, 4, 6})});
  const Operand first = maker.op(kind::kTranspose, {heads}, {ints("perm", {2, 0, 3, 1, 4})});
  const auto part = [&](std::int64_t i) {
    return maker.op(kind::kGather, {first},
                    {integer("axis", 0), ints("indices", {i}), ints("index_dims", {})});
  };
  const Operand keys = maker.op(kind::kTranspose, {part(1)}, {ints("perm", {0, 1, 3, 2})});
  const Operand scores = maker.op(kind::kMatmul, {part(0), keys});
  maker.output(maker.op(kind::kMatmul, {scores, part(2)}));
  expect_matches_reference(maker);
  EXPECT_EQ(copies_in(maker), 3U);
}

TEST(MovedViews, PadsOfNothingAreNoCopies) {
  Maker maker(5);
  const Operand x = pointwise(maker, maker.input(Dims{1, 4, 5, 6}), 4);
  const Operand padded =
      maker.op(kind::kPad, {x}, {ints("pads", {0, 0, 0, 0, 0, 0, 0, 0}), text("mode", "constant")});
  const Operand changed = maker.op(kind::kEltwise, {padded}, {text("alg", "tanh")});
  const Operand sum = maker.op(kind::kBinary, {x, changed}, {text("alg", "add")});
  maker.output(pointwise(maker, sum, 4));
  expect_matches_reference(maker);
  EXPECT_EQ(copies_in(maker), 2U);
}

TEST(MovedViews, SourceOutlivesItsViews) {
  // The sum would overwrite its operand, if a view of that were not read later.
  Maker maker(4);
  const Operand x = maker.op(kind::kEltwise, {maker.input(Dims{4, 6})}, {text("alg", "tanh")});
  const Operand left =
      maker.op(kind::kSlice, {x}, {ints("starts", {1}), ints("ends", {4}), ints("axes", {1})});
  const Operand changed = maker.op(kind::kEltwise, {x}, {text("alg", "relu")});
  const Operand turned = maker.op(kind::kTranspose, {left}, {ints("perm", {1, 0})});
  maker.output(maker.op(kind::kConcat, {turned, maker.input(Dims{3, 2})}, {integer("axis", 1)}));
  maker.output(maker.op(kind::kEltwise, {changed}, {text("alg", "abs")}));
  expect_matches_reference(maker);
}

/// A random walk of moves, functions and joins over a pool of values.
class Walk {
 public:
  explicit Walk(unsigned seed) : maker_(seed) {
    add(maker_.input(random_dims()));
    for (int i = 0; i < 12; ++i) step();
    maker_.output(values_.back().operand);
    for (const Known& value : values_)
      if (value.operand.index != values_.back().operand.index && maker_.random()() % 6 == 0)
        maker_.output(value.operand);
  }
  [[nodiscard]] Maker& maker() { return maker_; }

 private:
  struct Known {
    Operand operand;
    Dims dims;
  };

  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(maker_.random()() % static_cast<unsigned>(end));
  }
  Dims random_dims() {
    Dims dims;
    const std::int64_t rank = 2 + below(3);
    for (std::int64_t i = 0; i < rank; ++i) dims.push_back(1 + below(6));
    return dims;
  }
  void add(Operand operand) {
    if (values_.empty())
      values_.push_back({operand, maker_.inputs()[0].dims()});
    else
      values_.push_back(
          {operand,
           infer_value_dims(maker_.program(), maker_.input_dims()).value()[operand.index]});
  }

  void step() {
    const Known from = values_[static_cast<std::size_t>(
        below(3) != 0 ? std::ssize(values_) - 1 : below(std::ssize(values_)))];
    const auto rank = static_cast<std::int64_t>(from.dims.size());
    const std::int64_t axis = rank == 0 ? 0 : below(rank);
    const std::int64_t dim = rank == 0 ? 1 : from.dims[static_cast<std::size_t>(axis)];
    switch (below(9)) {
      case 0:
      case 1: return transpose(from);
      case 2: return reshape(from);
      case 3: return slice(from, axis, dim);
      case 4: return gather(from, axis, dim);
      case 5: return split(from, axis, dim);
      case 6: return join(from, axis);
      case 7:
        if (rank == 4 && from.dims[1] < 30) return convolve(from);
        [[fallthrough]];
      default: add(maker_.op(kind::kEltwise, {from.operand}, {text("alg", "tanh")}));
    }
  }

  void transpose(const Known& from) {
    std::vector<std::int64_t> perm;
    for (std::size_t i = 0; i < from.dims.size(); ++i) perm.push_back(static_cast<std::int64_t>(i));
    std::ranges::shuffle(perm, maker_.random());
    add(maker_.op(kind::kTranspose, {from.operand}, {ints("perm", perm)}));
  }

  /// Splits a dim in two, or merges two.
  void reshape(const Known& from) {
    std::vector<std::int64_t> shape(from.dims.begin(), from.dims.end());
    const std::size_t at = shape.empty() ? 0 : static_cast<std::size_t>(below(std::ssize(shape)));
    if (!shape.empty() && shape.size() < 6 && below(2) == 0) {
      std::int64_t part = 1;
      for (const std::int64_t divisor : {2, 3})
        if (shape[at] % divisor == 0) part = divisor;
      shape[at] /= part;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), part);
    } else if (at + 1 < shape.size()) {
      shape[at + 1] *= shape[at];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
    }
    add(maker_.op(kind::kReshape, {from.operand}, {ints("shape", shape)}));
  }

  void slice(const Known& from, std::int64_t axis, std::int64_t dim) {
    if (from.dims.empty()) return;
    const bool back = below(4) == 0;
    const std::int64_t step = (1 + below(2)) * (back ? -1 : 1);
    const std::int64_t first = below(dim);
    add(maker_.op(kind::kSlice, {from.operand},
                  {ints("starts", {first}), ints("ends", {back ? -100 : 100}), ints("axes", {axis}),
                   ints("steps", {step})}));
  }

  void gather(const Known& from, std::int64_t axis, std::int64_t dim) {
    if (from.dims.size() < 2) return;
    if (below(2) == 0)
      add(maker_.op(
          kind::kGather, {from.operand},
          {integer("axis", axis), ints("indices", {below(dim)}), ints("index_dims", {})}));
    else
      add(maker_.op(kind::kGather, {from.operand},
                    {integer("axis", axis), ints("indices", {below(dim), 0, dim - 1}),
                     ints("index_dims", {3})}));
  }

  void split(const Known& from, std::int64_t axis, std::int64_t dim) {
    if (dim < 2) return;
    const std::int64_t first = 1 + below(dim - 1);
    for (const Operand part : maker_.split(
             from.operand, 2, {integer("axis", axis), ints("sizes", {first, dim - first})}))
      add(part);
  }

  /// With itself, or with another value of the same dims.
  void join(const Known& from, std::int64_t axis) {
    if (from.dims.empty() || volume(from.dims) > 4000) return;
    Operand other = from.operand;
    for (const Known& value : values_)
      if (value.dims == from.dims && below(2) == 0) other = value.operand;
    add(maker_.op(kind::kConcat, {other, from.operand}, {integer("axis", axis)}));
  }

  void convolve(const Known& from) {
    add(maker_.op(kind::kConv, {from.operand, maker_.weight(Dims{6, from.dims[1], 1, 1})}));
  }

  Maker maker_;
  std::vector<Known> values_;
};

TEST(MovedViews, RandomWalksMatchTheReference) {
  for (unsigned seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Walk walk(seed);
    expect_matches_reference(walk.maker());
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
