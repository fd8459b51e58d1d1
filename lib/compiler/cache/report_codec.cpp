#include "cache/report_codec.h"

#include <concepts>
#include <type_traits>

#include "ctxgen/base/byte_io.h"

namespace ctxgen {
namespace {

// One function per struct lists its fields; writing and reading both go through it.

template <class Io>
void fields(Io& io, PartitionReport& r) {
  io(r.name, r.provider, r.nodes, r.inputs, r.outputs, r.weight_bytes, r.plans, r.notes);
}
template <class Io>
void fields(Io& io, NodeReport& r) {
  io(r.name, r.op_type, r.provider, r.graph, r.partition, r.folded, r.reasons);
}
template <class Io>
void fields(Io& io, ModelReport& r) {
  io(r.input_name, r.output_name, r.nodes, r.compiled_nodes, r.folded_nodes, r.removed_nodes,
     r.partitions, r.assignment, r.warnings, r.unplanned, r.costs, r.model_bytes);
}
template <class Io>
void fields(Io& io, CompileReport::Bin& r) {
  io(r.name, r.bytes, r.weight_bytes, r.blobs, r.kept_programs);
}
template <class Io>
void fields(Io& io, ExternalInitializersReport& r) {
  io(r.name, r.bytes, r.tensors);
}
template <class Io>
void fields(Io& io, SharedBlobs& r) {
  io(r.users, r.blobs, r.bytes, r.saved_bytes);
}
template <class Io>
void fields(Io& io, SplitWeights& r) {
  io(r.programs, r.weights, r.bytes, r.extra_bytes);
}
template <class Io>
void fields(Io& io, CompileReport& r) {
  io(r.models, r.bins, r.external, r.bytes_added, r.bytes_stored, r.bytes_left_in_sources,
     r.sharing, r.split);
}

class Writer {
 public:
  template <class... T>
  void operator()(T&... items) {
    (put(items), ...);
  }
  std::vector<std::byte> release() { return out_.release(); }

 private:
  template <std::integral T>
  void put(T& number) {
    out_.u64(static_cast<std::uint64_t>(number));
  }
  void put(ShortText& text) {
    out_.u32(static_cast<std::uint32_t>(text.size()));
    out_.text(text);
  }
  void put(std::string& text) {
    out_.u32(static_cast<std::uint32_t>(text.size()));
    out_.text(text);
  }
  template <class T>
  void put(std::vector<T>& list) {
    out_.u32(static_cast<std::uint32_t>(list.size()));
    for (T& item : list) put(item);
  }
  template <class T>
  void put(std::optional<T>& item) {
    out_.u32(item ? 1 : 0);
    if (item) put(*item);
  }
  template <class T>
    requires std::is_class_v<T>
  void put(T& item) {
    fields(*this, item);
  }
  ByteWriter out_;
};

/// Reads nothing more after the first error.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : in_(bytes, "report") {}
  template <class... T>
  void operator()(T&... items) {
    (take(items), ...);
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  template <class T>
  std::optional<T> keep(Result<T> read) {
    if (read) return std::move(*read);
    if (status_) status_ = std::unexpected(std::move(read).error());
    return std::nullopt;
  }
  template <std::integral T>
  void take(T& number) {
    number = static_cast<T>(keep(in_.u64()).value_or(0));
  }
  void take(std::string& text) {
    const std::uint32_t size = keep(in_.count(1)).value_or(0);
    if (const auto bytes = keep(in_.take(size))) text = as_text(*bytes);
  }
  void take(ShortText& text) {
    const std::uint32_t size = keep(in_.count(1)).value_or(0);
    if (const auto bytes = keep(in_.take(size))) text = as_text(*bytes);
  }
  template <class T>
  void take(std::vector<T>& list) {
    const std::uint32_t size = keep(in_.count(sizeof(std::uint32_t))).value_or(0);
    for (std::uint32_t i = 0; i < size && status_; ++i) take(list.emplace_back());
  }
  template <class T>
  void take(std::optional<T>& item) {
    if (keep(in_.u32()).value_or(0) != 0) take(item.emplace());
  }
  template <class T>
    requires std::is_class_v<T>
  void take(T& item) {
    fields(*this, item);
  }
  ByteReader in_;
  Status status_;
};

}  // namespace

std::vector<std::byte> encode_report(const CompileReport& report) {
  CompileReport copy = report;
  Writer writer;
  fields(writer, copy);
  return writer.release();
}

Result<CompileReport> decode_report(std::span<const std::byte> bytes) {
  CompileReport report;
  Reader reader(bytes);
  fields(reader, report);
  CTXGEN_CHECK(reader.status());
  return report;
}

}  // namespace ctxgen
