#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ctxgen/base/function_ref.h"
#include "ctxgen/base/workers.h"
#include "ctxgen/kernels/quantised_rows.h"

namespace ctxgen::kernels {

/// Where rows of heads are: element e of row r of head h of image b is at
/// b * image + h * head + r * row + e. In elements; 0 repeats.
struct HeadStrides {
  std::int64_t image = 0, head = 0, row = 0;
};

/// What is added to logits: numbers, or bytes of which 0 hides a key. The place of (image, head, query,
/// key) is the sum of each times its stride; a stride of 0 repeats. At most one pointer is not null.
struct AttentionBias {
  const float* addends = nullptr;
  const std::uint8_t* visible = nullptr;
  std::int64_t image = 0, head = 0, query = 0, key = 0;
  std::int64_t keys = INT64_MAX;  // keys from here on have no place: they are hidden
};

/// What is added to logits by how far a key is from its query: `addends[h * count + n]` of head h where the key is n
/// places before it, the last of the head's where it is farther away, the first where it comes after. Finite.
struct AttentionDistances {
  const float* addends = nullptr;  // null: nothing is added
  std::int64_t count = 0;
};

struct AttentionSizes {
  std::int64_t images = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, size = 0, value_size = 0;
  bool quantised = false;  // keys and values are integers
  bool whole = false;      // all logits of a row are kept at once
  /// Elements from a head's key (or value) to the next where other heads' are between; many rows have them copied then.
  std::int64_t spread = 0;
};

/// Stages of a logit: the scaled product; with what is added to it or hides it; after the cap; the weight.
enum class LogitStage : std::uint8_t { kProduct, kMasked, kCapped, kWeight };

/// Where logits go at a stage: [images, heads, queries, keys], dense.
struct AttentionLogits {
  float* out = nullptr;  // null: nowhere
  LogitStage stage = LogitStage::kProduct;
};

/// Keys or values as integers: row r of head h of image b begins at byte b * image + h * head + r * row of the strides.
/// A head has scales of its own: `size` of them, or one for all heads.
struct QuantisedHeads {
  const std::byte* data = nullptr;
  const float* scales = nullptr;
  QuantisedForm form = {};
};

/// Makes keys and values: make(image, kv head, first key, end of the keys). Called once for each key, if
/// attends_by_chunks(), by the thread that reads them next, so that it finds them in its cache.
struct AttentionSource {
  FunctionRef<void(std::int64_t, std::int64_t, std::int64_t, std::int64_t)> make;
  std::int64_t floats = 0;  // that all calls copy: whether threads are worth their start
};

/// out(query) = sum over keys of w(key) v(key), w = softmax(cap(scale q k) + bias + distances) over the keys that the
/// query sees; cap(x) is softcap * tanh(x / softcap), or x where softcap is 0. Head h reads the keys and
/// values of h / (heads / kv_heads). Query s of image b is at position `position[b]` + s of the keys; it
/// sees those below lengths[b], with `causal` up to its own position, and with window > 0 at most that
/// many before it.
///
/// With sizes.whole the cap is over the sum, as ONNX has it: softmax(cap(scale q k + bias + distances)), in which a hidden
/// key has -infinity before the cap, so with a softcap it has the logit -softcap and counts; and logits may be a result.
///
/// A query that sees no key, or whose logits all are -infinity, is zeros; one with a logit of NaN or
/// +infinity is NaN. A key of bias -infinity is hidden whatever its logit. Values of hidden keys count as
/// 0 or are not read: which of both where they are NaN or infinite is not defined.
struct Attention {
  AttentionSizes sizes;
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  HeadStrides q_strides, k_strides, v_strides;
  QuantisedHeads integer_k = {}, integer_v = {};  // instead of k and v, if sizes.quantised
  float* out = nullptr;
  HeadStrides out_strides;
  float scale = 1, softcap = 0;
  bool causal = false;
  bool extra_zero = false;                 // one more logit of 0, without a value: smooth softmax
  const float* sinks = nullptr;            // per head, finite: one more logit, instead of that
  std::int64_t window = 0;                 // 0: all keys
  const std::int64_t* position = nullptr;  // per image, 0 or more; null: 0
  const std::int64_t* lengths = nullptr;   // per image, 0 to sizes.keys; null: sizes.keys
  AttentionBias bias;
  AttentionDistances distances = {};
  AttentionLogits logits = {};
  const AttentionSource* source = nullptr;  // null: k and v are there
  std::byte* scratch = nullptr;             // attention_scratch_bytes() of it, at a multiple of 64
};

/// Memory that attend() works in: some blocks of rows and logits, so linear in `size`, and for few queries
/// a sum per 64 keys, or with `whole` some logits per key; for many with `spread` keys and values once more. Nothing
/// if it is beyond 2^63.
///
/// Requires  sizes of 0 or more, heads a multiple of kv_heads > 0.
[[nodiscard]] std::optional<std::uint64_t> attention_scratch_bytes(const AttentionSizes& sizes);

/// Whether attend() reads keys and values once, a chunk after another. Requires  as above.
[[nodiscard]] bool attends_by_chunks(const AttentionSizes& sizes);

/// Logits are sums over `size` in f32, weights have an error of 2e-7 and that of their logit; sums of values
/// are f32.
///
/// Requires      as above, size > 0, value_size > 0; out overlaps nothing else. sizes.whole where there are logits, and then
///               floats, and neither extra_zero nor sinks. A source only if attends_by_chunks().
/// Determinism   results do not depend on the number of threads.
void attend(const Attention& attention, Workers& workers);

}  // namespace ctxgen::kernels
