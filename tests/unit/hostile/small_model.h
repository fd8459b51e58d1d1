#pragma once

#include "parse_model.h"

namespace ctxgen::test {

/// Two partitions of dnnl with a node of cpu between them, all small: x [2, 3] -> y [2, 4].
inline Blob small_model() {
  return parse_model(R"(<ir_version: 9, opset_import: ["": 18]>
    g (float[2,3] x) => (float[2,4] y)
    <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[4] b = {1,2,3,4}, int64 axis = {1},
     float[4,4] v = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}>
    { h = MatMul(x, w) i = Add(h, b) r = Relu(i) c = CumSum(r, axis) y = MatMul(c, v) })");
}

}  // namespace ctxgen::test
