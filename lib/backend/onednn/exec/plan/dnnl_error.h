#pragma once

#include <concepts>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include <oneapi/dnnl/dnnl.hpp>

#include "ctxgen/base/status.h"

namespace ctxgen::onednn {

/// Runs `work` and turns what oneDNN (or an allocation) throws into an Error that names `what`: a
/// text, or a function that makes it where it is needed (a load makes a hundred primitives).
/// `dnnl_unimplemented` is kUnsupported: a rejection that callers may answer with another kernel.
template <class What, class Work>
[[nodiscard]] auto guarded(const What& what, Work&& work) -> Result<std::invoke_result_t<Work>> {
  const auto name = [&what] {
    if constexpr (std::is_invocable_v<const What&>)
      return what();
    else
      return std::string_view(what);
  };
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      std::forward<Work>(work)();
      return {};
    } else {
      return std::forward<Work>(work)();
    }
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented)
      return fail(ErrorCode::kUnsupported, "{}: oneDNN has no implementation", name());
    if (error.status == dnnl_out_of_memory)
      return fail(ErrorCode::kResourceLimit, "{}: oneDNN is out of memory", name());
    return fail(ErrorCode::kBackendError, "{}: oneDNN: {}", name(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResourceLimit, "{}: out of memory", name());
  }
}

}  // namespace ctxgen::onednn
