#pragma once

#include <string>
#include <vector>

#define ORT_API_MANUAL_INIT
#include <onnxruntime_cxx_api.h>

namespace bench {

/// A prompt of `prompt` tokens, then `steps` tokens one by one.
struct DecodeOptions {
  int prompt = 0, steps = 0;
  bool one_buffer = false;  // as past and present, as GroupQueryAttention takes it
};

struct DecodeTimes {
  double prefill_ms = 0;
  std::vector<double> steps_ms;  // from the third on
};

/// "PROMPT,STEPS". Throws std::invalid_argument.
[[nodiscard]] DecodeOptions parse_decode(const std::string& text);

/// With IO binding, which hands the caches of a run to the next one without a copy. Inputs are known by their names
/// ("ids", "mask", "position", "past"). Throws where the model has another one.
[[nodiscard]] DecodeTimes decode(Ort::Session& session, const DecodeOptions& options);

}  // namespace bench
