#include "patience.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(Patience, EndsAfterItsSecondsOfAllWaits) {
  Patience patience(0.05);
  patience.begin();
  EXPECT_TRUE(patience.lasts(0));
  sleep_ms(40);
  patience.end(0);
  patience.begin();
  sleep_ms(20);
  EXPECT_FALSE(patience.lasts(0));
  patience.end(0);
  EXPECT_GE(patience.seconds_waited(), 0.06);
}

TEST(Patience, WhatMovesFastEnoughCostsNothing) {
  Patience patience(0.01);
  patience.begin();
  sleep_ms(30);
  EXPECT_TRUE(patience.lasts(1 << 20));  // a quarter of a second's worth
  EXPECT_FALSE(patience.lasts(1));       // one byte is none
  patience.end(1 << 20);
  patience.begin();
  EXPECT_TRUE(patience.lasts(0));
}

TEST(Patience, CancellingEndsIt) {
  bool cancelled = false;
  Patience patience(1000, [&] { return cancelled; });
  patience.begin();
  EXPECT_TRUE(patience.lasts(0));
  cancelled = true;
  EXPECT_FALSE(patience.lasts(0));
}

}  // namespace
}  // namespace ctxgen
