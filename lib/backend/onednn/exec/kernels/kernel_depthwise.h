#pragma once

#include <memory>

#include "ctxgen/kernels/depthwise.h"

#include "kernels/kernels.h"
#include "kernels/part_finish.h"

namespace ctxgen::onednn {

struct DepthwiseForm {
  kernels::Depthwise conv;  // its addresses and finish are not read
  PartFinish finish;
};

/// result = stages(conv). Args and threads as of make_product_kernel(), with the weights for the panels.
[[nodiscard]] std::shared_ptr<const Kernel> make_depthwise_kernel(DepthwiseForm form, int threads);

}  // namespace ctxgen::onednn
