// The wire-level reader, and the writer on what it read: written, read and written again, a model keeps its bytes.
#include <vector>

#include "ctxgen/onnx_lite/content_hash.h"
#include "ctxgen/onnx_lite/list_contexts.h"
#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "fuzz_input.h"

using namespace ctxgen;

namespace {

std::vector<std::byte> written(const Model& model) {
  std::vector<std::byte> bytes;
  const ModelRewrite rewrite = identity_rewrite(model);
  const Status status =
      write_model(model, rewrite, [&bytes](std::span<const std::byte> part) -> Status {
        bytes.insert(bytes.end(), part.begin(), part.end());
        return {};
      });
  fuzz::expect(status.has_value(), status ? "" : "not written: " + status.error().message);
  const auto told = model_size(model, rewrite);
  fuzz::expect(told && *told == bytes.size(), "model_size and write_model differ");
  return bytes;
}

Result<Hash128> hash_of(std::span<const std::byte> bytes) {
  return content_hash(bytes,
                      [](const ExternalDataRef&, std::uint64_t,
                         std::string_view) -> Result<std::span<const std::byte>> {
                        return fail(ErrorCode::kIoError, "no external data");
                      });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(list_contexts(fuzz::exact(fuzz::bytes_of(data, size))));
  const Blob whole = fuzz::exact(fuzz::bytes_of(data, size));
  static_cast<void>(recorded_content(whole.bytes));
  static_cast<void>(hash_of(whole.bytes));
  const auto model = read_model(fuzz::exact(fuzz::bytes_of(data, size)), {});
  if (!model) return 0;
  const auto once = written(*model);
  const auto again = read_model(fuzz::exact(once), {});
  fuzz::expect(again.has_value(), again ? "" : "not read again: " + again.error().message);
  fuzz::expect(written(*again) == once, "written twice, a model is not the same");
  const auto told = content_hash(*model, identity_rewrite(*model));
  const auto found = hash_of(once);
  fuzz::expect(!told || !found || *told == *found,
               "what is written has another content hash than was said");
  ReadModelOptions plain;
  plain.expand_functions = false;
  static_cast<void>(read_model(fuzz::exact(once), plain));
  return 0;
}
