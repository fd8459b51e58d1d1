#include "running/sample_file.h"

#include <utility>

#include "ctxgen/base/file.h"
#include "ctxgen/base/hash.h"

#include "io/npz.h"

namespace ctxgen::cli {

Result<SampleArrays> read_sample_file(const std::filesystem::path& path) {
  const Blob file = CTXGEN_TRY(map_file(path));
  SampleArrays samples{.arrays = {}, .hash = hash_bytes(file.bytes)};
  for (NamedArray& array : CTXGEN_TRY(read_npz(file, path.string())))
    samples.arrays.emplace_back(std::move(array.name), std::move(array.tensor));
  return samples;
}

}  // namespace ctxgen::cli
