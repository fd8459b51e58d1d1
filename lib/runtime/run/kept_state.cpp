#include "run/kept_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

/// Bytes of what follows an axis, and how often it comes.
struct Blocks {
  std::uint64_t outer = 1, inner_bytes = 1;
};

Blocks blocks_of(DataType type, const Dims& dims, std::size_t axis) {
  Blocks blocks;
  for (std::size_t i = 0; i < axis; ++i) blocks.outer *= static_cast<std::uint64_t>(dims[i]);
  blocks.inner_bytes = bits_of(type) / 8;
  for (std::size_t i = axis + 1; i < dims.size(); ++i)
    blocks.inner_bytes *= static_cast<std::uint64_t>(dims[i]);
  return blocks;
}

/// Copies `rows` rows of each block between tensors that have as many blocks, of other lengths.
void copy_rows(const Tensor& from, Tensor& to, std::size_t axis, std::int64_t rows) {
  const Blocks blocks = blocks_of(from.type(), from.dims(), axis);
  const std::uint64_t bytes = static_cast<std::uint64_t>(rows) * blocks.inner_bytes;
  const auto pitch = [&](const Tensor& tensor) {
    return static_cast<std::uint64_t>(tensor.dims()[axis]) * blocks.inner_bytes;
  };
  if (bytes == 0) return;
  for (std::uint64_t i = 0; i < blocks.outer; ++i)
    std::memcpy(to.mutable_bytes().data() + i * pitch(to), from.bytes().data() + i * pitch(from),
                bytes);
}

/// The first `dims` of a tensor with room for more, as an operand that only the owner of the room reads.
Tensor front_of(const Tensor& memory, DataType type, const Dims& dims) {
  const auto bytes = checked_size_bytes(type, dims).value_or(0);
  return Tensor::borrow(type, dims, nullptr, memory.bytes().first(bytes));
}

/// Holds a state for one call.
class Hold {
 public:
  explicit Hold(std::atomic<bool>& in_use) : in_use_(in_use), held_(!in_use.exchange(true)) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    if (held_) in_use_ = false;
  }
  [[nodiscard]] Status status() const {
    if (held_) return {};
    return fail(ErrorCode::kInvalidArgument, "the state is in use by a run or another call");
  }

 private:
  std::atomic<bool>& in_use_;
  const bool held_;
};

}  // namespace

KeptState::KeptState(std::span<const KeptPair> pairs, std::uint64_t limit_bytes)
    : pairs_(pairs), limit_bytes_(limit_bytes), values_(pairs.size()) {}

std::int64_t KeptState::length() const {
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    if (pairs_[i].axis && values_[i].is_set)
      longest = std::max(longest, values_[i].dims[*pairs_[i].axis]);
  return longest;
}

std::uint64_t KeptState::room_left() const {
  std::int64_t room = reserved_;
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    if (pairs_[i].cache && values_[i].memory.defined())
      room = std::max(room, values_[i].memory.dims()[*pairs_[i].axis]);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(room - length(), 0));
}

std::uint64_t KeptState::size_bytes() const {
  std::uint64_t bytes = 0;
  for (const Value& value : values_)
    bytes += value.memory.bytes().size() + value.spare.bytes().size();
  return bytes;
}

Result<Tensor> KeptState::allocate(DataType type, const Dims& dims) {
  const auto bytes = checked_size_bytes(type, dims);
  const std::uint64_t used = size_bytes();
  if (!bytes || *bytes > limit_bytes_ || used > limit_bytes_ - *bytes)
    return fail(ErrorCode::kResourceLimit, "a state of {} bytes and {} more, limit {}", used,
                to_string(dims), limit_bytes_);
  allocated_bytes_ += *bytes;
  return Tensor::allocate(type, dims);
}

Status KeptState::begin() {
  if (!in_use_.exchange(true)) return {};
  return fail(ErrorCode::kInvalidArgument, "the state is in use by a run or another call");
}

Status KeptState::first_value(const KeptPair& pair, std::span<const std::int64_t> symbols,
                              Value& value) {
  Dims dims;
  for (std::size_t i = 0; i < pair.type.rank(); ++i) {
    const Dim& dim = (*pair.type.shape)[i];
    std::int64_t size = dim.is_fixed() ? dim.value() : -1;
    if (!dim.is_fixed() && pair.axis == i) size = 0;
    if (dim.is_symbol() && size < 0) size = symbols[dim.symbol().index];
    if (size < 0)
      return fail(ErrorCode::kInvalidArgument,
                  "state \"{}\": no input of the run says what its dimension {} is",
                  pair.names.input, i);
    dims.push_back(size);
  }
  // A value that does not grow is zeros at first; its memory of an earlier sequence may serve again.
  if (!pair.cache && (!value.memory.defined() || value.memory.dims() != dims)) {
    value.memory = Tensor();
    value.memory = CTXGEN_TRY(allocate(pair.type.element, dims));
  }
  if (!pair.cache) std::ranges::fill(value.memory.mutable_bytes(), std::byte{});
  value.dims = dims;
  value.is_set = value.is_first = true;
  return {};
}

Status KeptState::give(std::span<RuntimeValue> given, std::span<const std::int64_t> symbols,
                       std::span<OutputMemory> memory) {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const KeptPair& pair = pairs_[i];
    Value& value = values_[i];
    if (!value.is_set) CTXGEN_CHECK(first_value(pair, symbols, value));
    value.next = Dims();
    given[pair.names.input_index] =
        pair.cache ? front_of(value.memory, pair.type.element, value.dims) : value.memory;
    if (pair.axis) continue;
    if (!value.spare.defined() || value.spare.dims() != value.dims) {
      value.spare = Tensor();
      value.spare = CTXGEN_TRY(allocate(pair.type.element, value.dims));
    }
    const auto bytes = value.spare.mutable_bytes();
    memory[pair.names.output_index] = {bytes.data(), bytes.size()};
  }
  return {};
}

void KeptState::take(std::span<RuntimeValue> results, TensorPool& pool) {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const KeptPair& pair = pairs_[i];
    Value& value = values_[i];
    RuntimeValue& result = results[pair.names.output_index];
    value.is_first = false;
    if (pair.cache) {
      value.dims = value.next;
    } else if (result.is_tensor() && !pair.axis) {
      std::swap(value.memory, value.spare);
      value.dims = result.tensor().dims();
      if (value.memory.dims() != value.dims)
        value.memory = Tensor::borrow(value.memory.type(), value.dims, value.memory.owner(),
                                      value.memory.bytes().first(result.tensor().bytes().size()));
    } else if (result.is_tensor()) {
      pool.release(std::exchange(value.memory, result.tensor()));
      value.dims = value.memory.dims();
    }
    result = RuntimeValue();
  }
}

void KeptState::end() {
  for (Value& value : values_) {
    if (value.is_first) value.is_set = false;
    value.is_first = false;
  }
  in_use_ = false;
}

Status KeptState::grow(const KeptPair& pair, Value& value, const Dims& dims) {
  const std::size_t axis = *pair.axis;
  const std::int64_t before = value.memory.defined() ? value.memory.dims()[axis] : 0;
  Dims room = dims;
  room[axis] = std::max({dims[axis], reserved_, 2 * before});
  Tensor larger = CTXGEN_TRY(allocate(pair.type.element, room));
  if (value.memory.defined()) copy_rows(value.memory, larger, axis, value.dims[axis]);
  value.memory = std::move(larger);
  return {};
}

Result<std::optional<CachePlace>> KeptState::keep(std::size_t step, std::size_t cache,
                                                  const Dims& dims) {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const KeptPair& pair = pairs_[i];
    if (!pair.cache || pair.cache->step != step || pair.cache->cache != cache) continue;
    Value& value = values_[i];
    const std::size_t axis = *pair.axis;
    Dims room = value.memory.dims();
    if (value.memory.defined() && value.dims[axis] == 0) {
      Dims same = dims;
      same[axis] = room[axis];
      if (same != room) value.memory = Tensor();  // of a sequence of another batch
    }
    if (!value.memory.defined() || value.memory.dims()[axis] < dims[axis])
      CTXGEN_CHECK(grow(pair, value, dims));
    value.next = dims;
    return CachePlace{value.memory.mutable_bytes().data(), value.memory.dims()[axis]};
  }
  return std::nullopt;
}

bool KeptState::keeps(ValueId output) const {
  return std::ranges::any_of(
      pairs_, [&](const KeptPair& pair) { return pair.cache && pair.output_id == output; });
}

Status KeptState::reserve(std::int64_t length) {
  const Hold hold(in_use_);
  CTXGEN_CHECK(hold.status());
  if (length < 0) return fail(ErrorCode::kInvalidArgument, "a state of length {}", length);
  reserved_ = length;
  return {};
}

Status KeptState::reset() {
  const Hold hold(in_use_);
  CTXGEN_CHECK(hold.status());
  for (Value& value : values_) value.is_set = false;
  return {};
}

Status KeptState::rewind(std::int64_t length) {
  const Hold hold(in_use_);
  CTXGEN_CHECK(hold.status());
  if (length < 0 || length > this->length())
    return fail(ErrorCode::kInvalidArgument, "a state of length {} cannot be rewound to {}",
                this->length(), length);
  if (length == this->length()) return {};
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    if (!pairs_[i].axis)
      return fail(ErrorCode::kUnsupported,
                  "state \"{}\" does not grow: it cannot be what it was earlier",
                  pairs_[i].names.input);
  std::vector<Tensor> shorter(values_.size());  // nothing changes if memory is short
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const std::size_t axis = *pairs_[i].axis;
    if (pairs_[i].cache || !values_[i].is_set || values_[i].dims[axis] <= length) continue;
    Dims dims = values_[i].dims;
    dims[axis] = length;
    shorter[i] = CTXGEN_TRY(allocate(pairs_[i].type.element, dims));
    copy_rows(values_[i].memory, shorter[i], axis, length);
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (!values_[i].is_set) continue;
    std::int64_t& rows = values_[i].dims[*pairs_[i].axis];
    rows = std::min(rows, length);
    if (shorter[i].defined()) values_[i].memory = std::move(shorter[i]);
  }
  return {};
}

Result<std::unique_ptr<ModelState>> KeptState::fork() {
  return at_boundary("forking a state", [&]() -> Result<std::unique_ptr<ModelState>> {
    const Hold hold(in_use_);
    CTXGEN_CHECK(hold.status());
    auto copy = std::make_unique<KeptState>(pairs_, limit_bytes_);
    copy->reserved_ = reserved_;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const Value& from = values_[i];
      Value& to = copy->values_[i];
      if (!from.is_set) continue;
      to.is_set = true;
      to.dims = from.dims;
      if (!from.memory.defined()) continue;
      to.memory = CTXGEN_TRY(copy->allocate(from.memory.type(), from.memory.dims()));
      const std::size_t axis = pairs_[i].axis.value_or(0);
      if (from.memory.dims().empty())
        std::ranges::copy(from.memory.bytes(), to.memory.mutable_bytes().begin());
      else
        copy_rows(from.memory, to.memory, axis, from.dims[axis]);
    }
    return copy;
  });
}

Result<RuntimeValue> KeptState::read(std::size_t pair) {
  return at_boundary("reading a state", [&]() -> Result<RuntimeValue> {
    const Hold hold(in_use_);
    CTXGEN_CHECK(hold.status());
    if (pair >= pairs_.size())
      return fail(ErrorCode::kInvalidArgument, "no state {}: there are {}", pair, pairs_.size());
    const Value& value = values_[pair];
    if (!value.is_set)
      return fail(ErrorCode::kInvalidArgument, "state \"{}\" has no value before the first run",
                  pairs_[pair].names.input);
    Tensor copy = CTXGEN_TRY(Tensor::allocate(pairs_[pair].type.element, value.dims));
    if (copy.bytes().empty()) return copy;
    if (value.dims.empty())
      std::ranges::copy(value.memory.bytes(), copy.mutable_bytes().begin());
    else
      copy_rows(value.memory, copy, pairs_[pair].axis.value_or(0),
                value.dims[pairs_[pair].axis.value_or(0)]);
    return copy;
  });
}

}  // namespace ctxgen
