// Programs of a context binary with every checksum right: the dnnl loader makes plans of them and runs them.
// Input: a manifest. Where its blobs lie and what they hold is made up here.
#include <array>
#include <memory>
#include <vector>

#include "ctxgen/base/checked.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/onednn/exec.h"

#include "bounded_memory.h"
#include "fuzz_input.h"
#include "header.h"
#include "manifest.h"

using namespace ctxgen;

namespace {

constexpr std::uint64_t kMaxBlobBytes = 1 << 16;
constexpr std::size_t kMaxBlobs = 32, kMaxOps = 24;
constexpr std::int64_t kMaxElements = 4096;

/// The file that the manifest describes, or nothing if it would be too much work.
std::optional<std::vector<std::byte>> file_of(Manifest manifest) {
  if (manifest.blobs.size() > kMaxBlobs || manifest.programs.size() > 4) return std::nullopt;
  std::vector<std::byte> data;
  for (ManifestBlob& blob : manifest.blobs) {
    if (blob.size > kMaxBlobBytes) return std::nullopt;
    data.resize(align_up(data.size(), blob_alignment(blob.size)));
    blob.offset = data.size();
    blob.encoding = 0;
    blob.content_size = 0;
    for (std::uint64_t i = 0; i < blob.size; ++i)
      data.push_back(static_cast<std::byte>(i % 4 == 3 ? 0x3E : 0));
    blob.hash = hash_bytes(std::span(data).subspan(blob.offset));
  }
  manifest.program_hashes.resize(manifest.programs.size());
  for (std::size_t i = 0; i < manifest.programs.size(); ++i)
    manifest.program_hashes[i] = hash_program(manifest.programs[i], [&](BlobRef blob) {
      const std::uint32_t index = blob.bin_index().value;
      return index < manifest.blobs.size() ? manifest.blobs[index].hash : Hash128{};
    });
  const auto bytes = encode_manifest(manifest.programs, manifest.program_hashes, manifest.blobs);
  if (!bytes) return std::nullopt;
  Header header;
  header.info = {kFormatMajor, kFormatMinor, std::string(onednn::kSource), "fuzz", "fuzz"};
  header.manifest_hash = hash_bytes(*bytes);
  header.manifest_offset = align_up(header_size_of(header.info), kManifestAlignment);
  header.manifest_size = bytes->size();
  header.data_offset = align_up(header.manifest_end(), kDataAlignment);
  header.file_size = header.data_offset + data.size();
  auto file = encode_header(header).value();
  file.resize(header.manifest_offset);
  file.insert(file.end(), bytes->begin(), bytes->end());
  file.resize(header.data_offset);
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

class Outputs final : public OutputAllocator {
 public:
  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override {
    fuzz::expect(output < kMaxElements, "an output that the program does not have");
    tensors_.push_back(CTXGEN_TRY(Tensor::allocate(type, dims)));
    return tensors_.back().mutable_bytes().data();
  }

 private:
  std::vector<Tensor> tensors_;
};

/// Inputs of the sizes that the program gives; `free_size` for the others.
std::optional<std::vector<Tensor>> inputs_of(const Program& program, std::int64_t free_size) {
  std::vector<Tensor> inputs;
  for (const std::uint32_t index : program.inputs) {
    const ProgramValue& value = program.values[index];
    Dims dims;
    std::int64_t count = 1;
    for (const ProgramDim& dim : value.dims) {
      dims.push_back(dim.value >= 0 ? dim.value : free_size);
      if (dims.back() > kMaxElements || (count *= dims.back()) > kMaxElements) return std::nullopt;
    }
    auto tensor = Tensor::allocate(value.type, dims);
    if (!tensor || tensor->is_string()) return std::nullopt;
    fuzz::fill(*tensor, 1);
    inputs.push_back(std::move(*tensor));
  }
  return inputs;
}

void load_and_run(const ContextReader& reader, const Program& program) {
  if (program.ops.size() > kMaxOps || program.plans.size() > 4) return;
  const BlobSource blobs = [&reader](BlobIndex index) { return reader.blob(index); };
  const auto executable = onednn::loader().load(std::make_shared<const Program>(program), blobs,
                                                LoadOptions{1}, nullptr);
  if (!executable) return;
  for (const std::int64_t free_size : {1, 3}) {
    const auto inputs = inputs_of(program, free_size);
    if (!inputs) return;
    std::vector<TensorView> views;
    for (const Tensor& tensor : *inputs) views.push_back(tensor.view());
    const auto state = (*executable)->make_state();
    if (!state) return;
    Outputs outputs;
    static_cast<void>((*executable)->run(**state, views, outputs));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryBound bound;
  auto manifest = decode_manifest(fuzz::exact(fuzz::bytes_of(data, size)).bytes);
  if (!manifest) return 0;
  const auto file = file_of(std::move(*manifest));
  if (!file) return 0;
  const auto reader = ContextReader::open(fuzz::exact(*file), "fuzz", VerifyBlobs::kAlways);
  if (!reader) return 0;
  for (const Program& program : reader->programs()) load_and_run(*reader, program);
  return 0;
}
