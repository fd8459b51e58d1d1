#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/workers.h"

#include "kernels/kernels.h"
#include "kernels/kernels_move.h"

// Random moves against a loop over all indices, of every width of elements, on one thread and on several.
namespace ctxgen::onednn::test {
namespace {

using Bytes = std::vector<std::byte>;

struct Move {
  std::vector<MoveAxis> axes;  // dst dense
  std::int64_t src_elements = 1;
  std::int64_t src_begin = 0;
  std::int64_t dst_elements = 1;
};

std::int64_t between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
}

/// Puts the axes of `move`, whose src strides are those of dense tensors, into another order in src, and
/// cuts, reverses, repeats or shuffles some.
Move random_move(std::mt19937& random) {
  Move move;
  const std::int64_t rank = between(random, 0, 5);
  std::vector<std::int64_t> sizes, in(static_cast<std::size_t>(rank));
  for (std::int64_t i = 0; i < rank; ++i) {
    static constexpr std::int64_t kLargest[] = {3, 8, 20, 70, 300};
    sizes.push_back(between(random, 1, move.dst_elements > 4000 ? 4 : kLargest[random() % 5]));
    move.dst_elements *= sizes.back();
  }
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::int64_t>(i);
  if (random() % 3 != 0) std::ranges::shuffle(in, random);
  std::int64_t dst = move.dst_elements;
  for (const std::int64_t size : sizes) {
    dst /= size;
    move.axes.push_back({size, 0, dst, {}});
  }
  for (std::size_t n = in.size(); n-- > 0;) {  // the last axis of src first
    MoveAxis& axis = move.axes[static_cast<std::size_t>(in[n])];
    const std::int64_t stride = move.src_elements;
    std::int64_t length = axis.size;
    axis.src = stride;
    switch (random() % 8) {
      case 0:
        axis.src = 0;
        length = 1;
        break;
      case 1:
        move.src_begin += stride * (axis.size - 1);
        axis.src = -stride;
        break;
      case 2:
        axis.src = 2 * stride;
        length = 2 * axis.size - 1;
        break;
      case 3: length = axis.size + between(random, 0, 3); break;
      case 4:  // a table: some of it padding, some in order
        for (std::int64_t i = 0; i < axis.size; ++i)
          axis.offsets.push_back(random() % 4 == 0 ? kFill
                                                   : stride * between(random, 0, axis.size - 1));
        break;
      case 5:  // padding around
        for (std::int64_t i = 0; i < axis.size; ++i)
          axis.offsets.push_back(i < 2 || i > axis.size - 2 ? kFill : stride * (i - 2));
        break;
      case 6:  // halves swapped
        for (std::int64_t i = 0; i < axis.size; ++i)
          axis.offsets.push_back(stride * ((i + axis.size / 2) % axis.size));
        break;
      default: break;
    }
    move.src_elements *= length;
  }
  return move;
}

Bytes expected_move(const Move& move, const Bytes& src, std::size_t element, const Bytes& fill) {
  Bytes dst(static_cast<std::size_t>(move.dst_elements) * element);
  for (std::int64_t i = 0; i < move.dst_elements; ++i) {
    std::int64_t left = i, to = 0, from = move.src_begin;
    bool filled = false;
    for (std::size_t a = move.axes.size(); a-- > 0;) {
      const MoveAxis& axis = move.axes[a];
      const std::int64_t at = left % axis.size;
      left /= axis.size;
      to += at * axis.dst;
      const std::int64_t offset =
          axis.offsets.empty() ? at * axis.src : axis.offsets[static_cast<std::size_t>(at)];
      filled = filled || offset == kFill;
      from += offset == kFill ? 0 : offset;
    }
    std::memcpy(dst.data() + static_cast<std::size_t>(to) * element,
                filled ? fill.data() : src.data() + static_cast<std::size_t>(from) * element,
                element);
  }
  return dst;
}

TEST(MoveKernel, MovesAsALoopOverIndicesDoes) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Move move = random_move(random);
    if (seed % 2 == 0) std::ranges::shuffle(move.axes, random);  // the order given says nothing
    ASSERT_LT(move.src_elements, 10'000'000);
    const std::size_t element = std::size_t{1} << (seed % 4);
    Bytes src(static_cast<std::size_t>(move.src_elements) * element);
    for (std::byte& byte : src) byte = static_cast<std::byte>(random());
    const std::uint64_t fill = 0x0123456789abcdef;
    Bytes fill_bytes(sizeof(fill));
    std::memcpy(fill_bytes.data(), &fill, sizeof(fill));
    // The loop divides its counter by sizes: any order does, as each element has one place.
    const Bytes expected = expected_move(move, src, element, fill_bytes);
    const auto kernel = make_move_kernel(move.axes, element, fill);
    OneThread one;
    StartedThreads several(3);
    for (Workers* workers : {static_cast<Workers*>(&one), static_cast<Workers*>(&several)}) {
      Bytes dst(expected.size());
      std::byte* args[] = {src.data() + move.src_begin * static_cast<std::int64_t>(element),
                           dst.data()};
      ASSERT_TRUE(kernel->run(args, *workers).has_value());
      ASSERT_TRUE(dst == expected);
    }
  }
}

/// A part of each row of dst is written, one element in `stride`.
TEST(MoveKernel, LeavesWhatIsBetweenAlone) {
  for (const std::uint64_t element : {1U, 2U, 4U, 8U})
    for (const std::int64_t stride : {2, 3}) {
      const std::int64_t count = 100;
      const auto bytes = static_cast<std::int64_t>(element);
      Bytes src(static_cast<std::size_t>(count * bytes), std::byte{7});
      Bytes dst(static_cast<std::size_t>(count * stride * bytes), std::byte{1});
      Bytes expected = dst;
      for (std::int64_t i = 0; i < count * bytes; ++i)
        expected[static_cast<std::size_t>(i / bytes * stride * bytes + i % bytes)] = std::byte{7};
      std::byte* args[] = {src.data(), dst.data()};
      OneThread one;
      ASSERT_TRUE(make_copy_kernel(Dims{count}, Dims{1}, Dims{stride}, element)
                      ->run(args, one)
                      .has_value());
      EXPECT_TRUE(dst == expected);
    }
}

TEST(MoveKernel, CutsLongRowsAndTransposesIntoParts) {
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 300'000}, {3, 100'001}, {100'001, 3}, {700, 501}})
    for (const bool transposed : {false, true}) {
      Move move;
      move.src_elements = move.dst_elements = rows * columns;
      move.axes = {{rows, transposed ? 1 : columns, columns, {}},
                   {columns, transposed ? rows : 1, 1, {}}};
      Bytes src(static_cast<std::size_t>(rows * columns) * 4);
      for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<std::byte>(i * 7 / 5);
      Bytes dst(src.size());
      std::byte* args[] = {src.data(), dst.data()};
      StartedThreads several(3);
      ASSERT_TRUE(make_move_kernel(move.axes, 4)->run(args, several).has_value());
      EXPECT_TRUE(dst == expected_move(move, src, 4, {})) << rows << " " << columns;
    }
}

}  // namespace
}  // namespace ctxgen::onednn::test
