// External data: keys, values and paths of a hostile model against a folder with links out of it.
// Input: per entry a byte for the key (or its length), a byte for the length of the value, the value.
#include "ctxgen/weights/external_data.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "fuzz_input.h"
#include "temp_folder.h"

using namespace ctxgen;

namespace {

constexpr char kSecret = 'S';

/// model/: what may be read, all of 'd'; beside it what may not, all of kSecret.
class Folder {
 public:
  Folder() {
    folder_.write("secret.bin", std::string(64, kSecret));
    folder_.write("model_b/w.bin", std::string(64, kSecret));
    folder_.write("model/w.bin", std::string(64, 'd'));
    folder_.write("model/sub/x.bin", std::string(64, 'd'));
    folder_.write("model/empty.bin", "");
    const auto link = [this](const char* target, const char* name) {
      if (::symlink(target, (folder_ / "model" / name).c_str()) != 0) std::abort();
    };
    link("w.bin", "inner");
    link("../secret.bin", "outer");
    link("..", "up");
    link("/", "root");
    link("loop", "loop");
    link("sub/../../secret.bin", "around");
  }
  [[nodiscard]] std::filesystem::path model() const { return folder_ / "model"; }

 private:
  test::TempFolder folder_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  constexpr std::string_view kKeys[] = {"location", "offset", "length", "checksum", ""};
  fuzz::Choices choices(fuzz::bytes_of(data, size));
  const std::uint64_t bytes = choices.byte() < 200 ? choices.below(80) : choices.u64();
  std::vector<std::pair<std::string_view, std::string_view>> entries;
  while (!choices.empty()) {
    const std::size_t key = choices.byte();
    const std::string_view name = key < std::size(kKeys) ? kKeys[key] : choices.text(key % 16);
    entries.emplace_back(name, choices.text(choices.byte()));
  }
  const auto ref = parse_external_data(entries, "w");
  if (!ref) return 0;
  ExternalDataResolver resolver(folder.model());
  const auto blob = resolver.resolve(*ref, bytes, "w");
  if (!blob) return 0;
  fuzz::expect(blob->bytes.size() == bytes, "another size than the tensor's");
  for (const std::byte byte : blob->bytes)
    fuzz::expect(byte == std::byte{'d'}, "bytes from outside of the folder: " + ref->location);
  return 0;
}
