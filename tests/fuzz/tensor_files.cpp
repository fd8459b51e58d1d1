// Input files of `ctxgen run`. The first byte says which kind the rest is: .npy, .pb or .npz.
#include "ctxgen/onnx_lite/read_model.h"

#include "fuzz_input.h"
#include "io/npy.h"
#include "io/npz.h"

using namespace ctxgen;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.dims() != b.dims()) return false;
  return a.is_string() ? std::ranges::equal(a.strings(), b.strings())
                       : std::ranges::equal(a.bytes(), b.bytes());
}

/// What was read is whole: every byte can be touched, and written and read again it is the same.
void check(const Tensor& tensor) {
  fuzz::expect(tensor.is_string() ||
                   checked_size_bytes(tensor.type(), tensor.dims()) == tensor.bytes().size(),
               "a tensor of another size than its dims");
  const auto pb = read_tensor(fuzz::exact(write_tensor(tensor, "t")));
  fuzz::expect(pb && same(*pb, tensor), "another tensor from its .pb");
  if (!cli::npy_can_hold(tensor.type())) return;
  const auto npy = cli::read_npy(fuzz::exact(cli::write_npy(tensor)), "t");
  fuzz::expect(npy && same(*npy, tensor), "another tensor from its .npy");
}

/// Written and read again, an archive has the same arrays.
void check_archive(const Blob& file) {
  const auto arrays = cli::read_npz(file, "fuzz");
  if (!arrays) return;
  for (const cli::NamedArray& array : *arrays) {
    check(array.tensor);
    const auto alone = cli::read_npz_array(file, "fuzz", array.name);
    fuzz::expect(alone && same(*alone, array.tensor), "another array when it is read alone");
  }
  if (arrays->empty()) return;
  const auto written = cli::write_npz(*arrays);
  if (!written) return;  // a name that no archive of ours has
  const auto again = cli::read_npz(fuzz::exact(*written), "fuzz");
  fuzz::expect(again && again->size() == arrays->size(), "another number of arrays from its .npz");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Blob file = fuzz::exact(fuzz::bytes_of(data + 1, size - 1));
  if (data[0] % 3 == 2) {
    check_archive(file);
    return 0;
  }
  const auto tensor = data[0] % 3 == 0 ? cli::read_npy(file, "fuzz") : read_tensor(file);
  if (tensor) check(*tensor);
  return 0;
}
