// Tuning files. Input: the text.
#include "ctxgen/tuning/tuning_file.h"

#include <string_view>

#include "ctxgen/onednn/exec.h"

#include "fuzz_input.h"

using namespace ctxgen;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto table = parse_tuning(text);
  if (!table) return 0;
  const auto again = parse_tuning(tuning_text(*table));
  fuzz::expect(again.has_value(), "what was written is not read");
  fuzz::expect(effect_of(*table) == effect_of(*again), "another effect when written and read");
  table->library = "oneDNN " + onednn::library_version();
  table->instruction_set = onednn::isa_name();
  (void)onednn::check_tuning(*table);
  return 0;
}
