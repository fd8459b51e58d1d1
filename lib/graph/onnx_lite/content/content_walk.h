#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ctxgen/base/tensor.h"
#include "ctxgen/onnx_lite/content_hash.h"

#include "content/content_feed.h"
#include "wire/rope.h"

namespace ctxgen {

/// Walks a ModelProto and hashes what it computes in the canonical form of docs/format.md.
///
/// Lifetime  for one walk; refers to the rope and the function.
class ContentWalk {
 public:
  ContentWalk(const Rope& rope, const ExternalBytes& external) : rope_(rope), external_(external) {}
  [[nodiscard]] Result<Hash128> model(RopeRange message);

 private:
  /// The fields of a message that is open. A field with another wire type is none of them.
  class Fields {
   public:
    Fields(const ContentWalk& walk, std::size_t begin)
        : walk_(walk), begin_(begin), end_(walk.fields_.size()) {}
    [[nodiscard]] std::size_t size() const { return end_ - begin_; }
    /// A copy: other messages are opened while it is used.
    [[nodiscard]] RopeField at(std::size_t i) const { return walk_.fields_[begin_ + i]; }
    [[nodiscard]] std::uint64_t count(std::uint32_t tag) const;
    /// The last one, as protobuf reads scalars; empty if there is none.
    [[nodiscard]] RopeField last(std::uint32_t tag) const;

   private:
    const ContentWalk& walk_;
    std::size_t begin_, end_;
  };
  /// Splits a message and calls `use(fields)`.
  template <class Use>
  [[nodiscard]] Status open(RopeRange message, Use&& use);
  /// Their number, then what `add(body)` adds for each of them.
  template <class Add>
  [[nodiscard]] Status list(const Fields& fields, std::uint32_t tag, Add&& add);
  void texts(const Fields& fields, std::uint32_t tag);
  void text(RopeRange range) { feed_.text(rope_, range); }

  // content_hash.cpp
  [[nodiscard]] Status opsets(const Fields& fields, std::uint32_t tag);
  [[nodiscard]] Status function(RopeRange message);
  [[nodiscard]] Status graph(RopeRange message, std::uint64_t depth);
  [[nodiscard]] Status node(RopeRange message, std::uint64_t depth);
  [[nodiscard]] Status attributes(const Fields& fields, std::uint32_t tag, std::uint64_t depth,
                                  bool of_context);
  [[nodiscard]] Status attribute(RopeRange message, std::uint64_t depth, bool of_context);
  [[nodiscard]] Status attribute_value(const Fields& fields, std::uint64_t kind,
                                       std::uint64_t depth);
  [[nodiscard]] Status context_text(RopeRange value);
  // content_values.cpp
  [[nodiscard]] Status numbers(const Fields& fields, std::uint32_t number, wire::Type type);
  [[nodiscard]] Status tensor(RopeRange message, bool named);
  [[nodiscard]] Status tensor_content(const Fields& fields, RopeRange message, DataType type,
                                      const Dims& dims);
  [[nodiscard]] Status external_content(const Fields& fields, DataType type, const Dims& dims);
  [[nodiscard]] Status typed_content(RopeRange message, DataType type, const Dims& dims);
  [[nodiscard]] Status sparse_tensor(RopeRange message, bool named);
  [[nodiscard]] Status value_info(RopeRange message);
  [[nodiscard]] Status type(RopeRange message, int depth);
  [[nodiscard]] Status tensor_type(RopeRange message);
  [[nodiscard]] Status dim(RopeRange message);

  const Rope& rope_;
  const ExternalBytes& external_;
  ContentFeed feed_;
  std::vector<RopeField> fields_;       // of all open messages, those of the innermost last
  std::vector<std::uint64_t> numbers_;  // of one list
};

template <class Use>
Status ContentWalk::open(RopeRange message, Use&& use) {
  const std::size_t begin = fields_.size();
  RopeReader reader(rope_, message);
  RopeField field;
  while (reader.next(field)) fields_.push_back(field);
  Status status = reader.status();
  if (status) status = use(Fields(*this, begin));
  fields_.resize(begin);
  return status;
}

template <class Add>
Status ContentWalk::list(const Fields& fields, std::uint32_t tag, Add&& add) {
  feed_.number(fields.count(tag));
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (const RopeField field = fields.at(i); field.tag == tag) CTXGEN_CHECK(add(field.body));
  return {};
}

}  // namespace ctxgen
