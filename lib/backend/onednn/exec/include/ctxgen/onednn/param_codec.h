#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/program.h"

// How the parameters of an op become a struct of kind_params.h and back. A struct lists its fields
// once, `fields(params, codec)`, for both directions:
//   codec("group", p.group);             a field that is always written
//   codec.unless_empty("pads", p.pads);  one that is left out where it is empty
// An optional is left out where it has no value. What is absent keeps the value that it has.
namespace ctxgen::onednn {

/// Numbers beyond +-2^31, where sums of a few could wrap, are refused.
inline constexpr std::int64_t kMaxParam = std::int64_t{1} << 31;

/// Replaces a parameter where it stands, or appends it.
void set_param(ProgramOp& op, std::string_view name, decltype(ProgramParam::value) value);
/// Null where it is absent.
[[nodiscard]] const ProgramParam* find_param(const ProgramOp& op, std::string_view name);

/// Writes fields into an op. The order of its parameters is that of the fields, but those that the
/// op has already stay where they are.
class ParamWriter {
 public:
  explicit ParamWriter(ProgramOp& op) : op_(&op) {}
  template <class T>
  void operator()(std::string_view name, const T& value) {
    set_param(*op_, name, value);
  }
  void operator()(std::string_view name, bool value) { set_param(*op_, name, std::int64_t{value}); }
  template <class T>
  void operator()(std::string_view name, const std::optional<T>& value) {
    if (value) (*this)(name, *value);
  }
  template <class T>
  void unless_empty(std::string_view name, const T& value) {
    if (!value.empty()) (*this)(name, value);
  }

 private:
  ProgramOp* op_;
};

/// Reads fields of an op. Programs come from files: a parameter of another type, a number beyond
/// kMaxParam or a list of more than 4096 is kCorruptContext; the first error stays. Elements of
/// lists are not bounded.
class ParamReader {
 public:
  explicit ParamReader(const ProgramOp& op) : op_(&op) {}
  void operator()(std::string_view name, std::int64_t& value);
  void operator()(std::string_view name, bool& value);
  void operator()(std::string_view name, double& value);  // an integer is a number, too
  void operator()(std::string_view name, std::string& value);
  void operator()(std::string_view name, std::vector<std::int64_t>& value);
  void operator()(std::string_view name, std::vector<double>& value);
  template <class T>
  void operator()(std::string_view name, std::optional<T>& value) {
    if (find_param(*op_, name) != nullptr) (*this)(name, value.emplace());
  }
  template <class T>
  void unless_empty(std::string_view name, T& value) {
    (*this)(name, value);
  }
  [[nodiscard]] Status status() && { return std::move(status_); }

 private:
  template <class T>
  const T* get(std::string_view name, std::string_view expected);
  void refuse(std::string_view name, std::string_view expected);

  const ProgramOp* op_;
  Status status_;
};

template <class Params>
void encode(const Params& params, ProgramOp& op) {
  ParamWriter writer(op);
  Params::fields(params, writer);
}

/// Errors  kCorruptContext naming op and parameter.
template <class Params>
[[nodiscard]] Result<Params> decode(const ProgramOp& op) {
  Params params;
  ParamReader reader(op);
  Params::fields(params, reader);
  if (Status status = std::move(reader).status(); !status)
    return std::unexpected(std::move(status).error());
  return params;
}

}  // namespace ctxgen::onednn
