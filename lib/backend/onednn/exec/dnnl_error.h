#pragma once

#include <concepts>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "ctxgen/base/status.h"

namespace ctxgen::onednn {

/// Runs `work` and turns what oneDNN (or an allocation) throws into an Error that names `what`.
/// `dnnl_unimplemented` is kUnsupported: a rejection that callers may answer with another kernel.
template <class Work>
[[nodiscard]] auto guarded(std::string_view what, Work&& work)
    -> Result<std::invoke_result_t<Work>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      std::forward<Work>(work)();
      return {};
    } else {
      return std::forward<Work>(work)();
    }
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented)
      return fail(ErrorCode::kUnsupported, "{}: oneDNN has no implementation", what);
    if (error.status == dnnl_out_of_memory)
      return fail(ErrorCode::kResourceLimit, "{}: oneDNN is out of memory", what);
    return fail(ErrorCode::kBackendError, "{}: oneDNN: {}", what, error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResourceLimit, "{}: out of memory", what);
  }
}

}  // namespace ctxgen::onednn
