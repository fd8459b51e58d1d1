#include "read/file_kind.h"

#include <algorithm>
#include <format>
#include <string_view>

#include "ctxgen/ctxfile/magic.h"

namespace ctxgen {
namespace {

struct Row {
  std::size_t offset;
  std::string_view bytes;
  std::string_view text;
};

constexpr Row kRows[] = {
    {0, kContextMagic,
     "this is a context binary, not a model: give the context model next to it, or show it with ctxgen inspect"},
    {0, "version https://git-lfs", "this is a pointer of Git LFS, not the model: run git lfs pull"},
    {4, "ORTM",
     "this is a model in ORT format, not ONNX: start from the ONNX model that it was made from"},
    {4, "TFL3", "this is a TensorFlow Lite model, not ONNX: convert it first (tf2onnx)"},
    {0,
     {"PK\3\4", 4},
     "this is a ZIP archive (a PyTorch checkpoint?), not an ONNX model: export it first"},
    {0, {"\x1f\x8b", 2}, "this is a gzip file, not an ONNX model: unpack it first"},
    {0, "GGUF", "this is a GGUF file, not an ONNX model"},
};

/// Blanks and what can be read, at the beginning.
bool is_text(std::string_view bytes) {
  return std::ranges::all_of(bytes.substr(0, 256), [](unsigned char c) {
    return c >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

}  // namespace

std::string file_kind(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Row& row : kRows)
    if (text.size() >= row.offset && text.substr(row.offset).starts_with(row.bytes))
      return std::string(row.text);
  return is_text(text) ? "this is a text file, not an ONNX model" : "";
}

}  // namespace ctxgen
