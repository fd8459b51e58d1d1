#include "wire_mutator.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <random>

namespace ctxgen::fuzz {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr int kMaxDepth = 24;

/// One field: a number (varint, fixed) in `number`, or text in `text`, or a message in `fields`.
struct Field {
  std::uint64_t tag = 0;
  std::uint64_t number = 0;
  Bytes text;
  std::vector<Field> fields;
  bool is_message = false;
  [[nodiscard]] unsigned wire() const { return tag & 7; }
};

std::optional<std::uint64_t> read_varint(std::span<const std::uint8_t>& rest) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const std::uint8_t byte = rest.front();
    rest = rest.subspan(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> read_fixed(std::span<const std::uint8_t>& rest, std::size_t size) {
  if (rest.size() < size) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | rest[i];
  rest = rest.subspan(size);
  return value;
}

std::optional<std::vector<Field>> parse(std::span<const std::uint8_t> rest, int depth);

/// Text that reads as a message of small field numbers is taken for one.
bool parse_text(Field& field, std::span<const std::uint8_t> text, int depth) {
  field.text.assign(text.begin(), text.end());
  if (text.empty() || depth == 0) return true;
  if (auto fields = parse(text, depth - 1)) {
    field.fields = std::move(*fields);
    field.is_message = true;
    field.text.clear();
  }
  return true;
}

std::optional<std::vector<Field>> parse(std::span<const std::uint8_t> rest, int depth) {
  std::vector<Field> fields;
  while (!rest.empty()) {
    const auto tag = read_varint(rest);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > 64) return std::nullopt;
    Field field;
    field.tag = *tag;
    std::optional<std::uint64_t> number;
    switch (field.wire()) {
      case 0: number = read_varint(rest); break;
      case 1: number = read_fixed(rest, 8); break;
      case 5: number = read_fixed(rest, 4); break;
      case 2: {
        number = read_varint(rest);
        if (!number || *number > rest.size()) return std::nullopt;
        parse_text(field, rest.first(*number), depth);
        rest = rest.subspan(*number);
        break;
      }
      default: return std::nullopt;
    }
    if (!number) return std::nullopt;
    field.number = *number;
    fields.push_back(std::move(field));
  }
  return fields;
}

void write_varint(std::uint64_t value, Bytes& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
}

void write(const std::vector<Field>& fields, Bytes& out) {
  for (const Field& field : fields) {
    write_varint(field.tag, out);
    if (field.wire() == 0) write_varint(field.number, out);
    for (std::size_t i = 0; i < (field.wire() == 1 ? 8U : field.wire() == 5 ? 4U : 0U); ++i)
      out.push_back(static_cast<std::uint8_t>(field.number >> (8 * i)));
    if (field.wire() != 2) continue;
    Bytes body;
    if (field.is_message)
      write(field.fields, body);
    else
      body = field.text;
    write_varint(body.size(), out);
    out.insert(out.end(), body.begin(), body.end());
  }
}

/// A field and the message that it stands in.
struct Place {
  std::vector<Field>* list;
  std::size_t index;
  [[nodiscard]] Field& field() const { return (*list)[index]; }
};

void collect(std::vector<Field>& fields, std::vector<Place>& places) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    places.push_back({&fields, i});
    collect(fields[i].fields, places);
  }
}

class Mutation {
 public:
  Mutation(std::vector<Field>& root, std::uint32_t seed, BytesMutator mutator)
      : random_(seed), mutator_(mutator) {
    collect(root, places_);
  }

  void apply() {
    if (places_.empty()) return;
    const Place place = pick();
    switch (below(8)) {
      case 0:
        place.list->erase(place.list->begin() + static_cast<std::ptrdiff_t>(place.index));
        break;
      case 1: insert(place, place.field()); break;
      case 2: insert(place, Field(pick().field())); break;
      case 3: std::swap(place.field(), (*place.list)[below(place.list->size())]); break;
      case 4: copy_from_alike(place); break;
      default: change(place.field()); break;
    }
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  Place pick() { return places_[below(places_.size())]; }

  static void insert(const Place& place, Field field) {
    place.list->insert(place.list->begin() + static_cast<std::ptrdiff_t>(place.index),
                       std::move(field));
  }

  // Names, types and numbers of other fields with the same tag make sense here more often.
  void copy_from_alike(const Place& place) {
    std::vector<Place> alike;
    for (const Place& other : places_)
      if (other.field().tag == place.field().tag) alike.push_back(other);
    Field copy = alike[below(alike.size())].field();
    place.field() = std::move(copy);
  }

  void change(Field& field) {
    if (field.wire() == 2 && !field.is_message) return change_text(field.text);
    if (field.is_message) {
      if (below(2) == 0 && !field.fields.empty())
        std::shuffle(field.fields.begin(), field.fields.end(), random_);
      return;
    }
    static constexpr std::uint64_t kOdd[] = {
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        12,
        13,
        16,
        31,
        32,
        63,
        64,
        127,
        128,
        255,
        256,
        1000,
        65535,
        65536,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
        0x100000000,
        0x7FC00000 /* NaN */,
        0x7F800000,
        0xFF800000,
        std::uint64_t(std::numeric_limits<std::int64_t>::max()),
        std::uint64_t{1} << 63,
        ~std::uint64_t{0},
        ~std::uint64_t{1},
        ~std::uint64_t{2}};
    switch (below(4)) {
      case 0: field.number += 1; break;
      case 1: field.number -= 1; break;
      case 2: field.number = below(16); break;
      default: field.number = kOdd[below(std::size(kOdd))]; break;
    }
  }

  void change_text(Bytes& text) {
    const std::size_t size = text.size(), most = size + 1 + below(16);
    text.resize(most);
    text.resize(mutator_(text.data(), size, most));
  }

  std::mt19937 random_;
  BytesMutator mutator_;
  std::vector<Place> places_;
};

}  // namespace

Bytes mutate_message(std::span<const std::uint8_t> message, std::uint32_t seed,
                     BytesMutator mutator) {
  auto fields = parse(message, kMaxDepth);
  if (!fields) return {};
  for (std::uint32_t round = 0; round < 1 + seed % 3; ++round)
    Mutation(*fields, seed + round, mutator).apply();
  Bytes out;
  write(*fields, out);
  return out;
}

Bytes cross_messages(std::span<const std::uint8_t> message, std::span<const std::uint8_t> from,
                     std::uint32_t seed) {
  auto fields = parse(message, kMaxDepth), others = parse(from, kMaxDepth);
  if (!fields || !others) return {};
  std::vector<Place> places, given;
  collect(*fields, places);
  collect(*others, given);
  if (places.empty() || given.empty()) return {};
  std::mt19937 random(seed);
  const Field& taken = given[random() % given.size()].field();
  std::erase_if(places, [&taken](const Place& place) { return place.field().tag != taken.tag; });
  if (places.empty()) return {};
  const Place place = places[random() % places.size()];
  if (random() % 2 == 0)
    place.field() = taken;
  else
    place.list->insert(place.list->begin() + static_cast<std::ptrdiff_t>(place.index), taken);
  Bytes out;
  write(*fields, out);
  return out;
}

}  // namespace ctxgen::fuzz
