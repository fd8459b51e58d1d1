#include "ctxgen/base/function_ref.h"

#include <functional>
#include <memory>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

int call(FunctionRef<int(int)> f, int x) { return f(x); }
int twice(int x) { return 2 * x; }

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  auto counting = [&calls](int x) { return ++calls + x; };
  EXPECT_EQ(call(counting, 10), 11);
  EXPECT_EQ(call(counting, 10), 12);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(call([](int x) { return -x; }, 3), -3);
  const std::function<int(int)> owner = twice;
  EXPECT_EQ(call(owner, 5), 10);
}

TEST(FunctionRef, ACopyRefersToTheSame) {
  int state = 0;
  auto add = [&state](int x) { return state += x; };
  const FunctionRef<int(int)> one(add);
  const FunctionRef<int(int)> other = one;
  EXPECT_EQ(one(1) + other(1), 3);
}

TEST(FunctionRef, ForwardsItsArguments) {
  auto take = [](std::unique_ptr<int> owned) { return *owned; };
  EXPECT_EQ((FunctionRef<int(std::unique_ptr<int>)>(take)(std::make_unique<int>(7))), 7);
}

}  // namespace
}  // namespace ctxgen
