#include "show/operator_tables.h"

#include <algorithm>
#include <cstdint>
#include <format>
#include <string_view>
#include <tuple>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/registry/providers.h"

namespace ctxgen::cli {
namespace {

constexpr std::string_view kIntroduction = R"(# Operators

Written by `./dev operators-doc` from the providers' tables; a test compares. `ctxgen explain MODEL` says which provider takes a
node of a model, and why the ones before did not.

*since*: the versions of the operator that a row implements, by the opset that introduced them; a model of a later opset uses the
last one. An operator that ONNX defines as a function and that has no row is compiled as its function's body. *joins*: moves data
only, so `dnnl` takes it between nodes that it computes, not alone.

)";

struct Entry {
  std::string_view domain, op_type;
  int order = 0;  // of the provider
  std::string provider;
  std::int64_t since_min = 0, since_max = 0;
  std::string limits;
};

Result<std::vector<Entry>> collect() {
  std::vector<Entry> entries;
  int order = 0;
  for (const std::string& name : provider_names()) {
    const auto provider = CTXGEN_TRY(make_provider(name));
    for (const OperatorInfo& row : provider->operators())
      entries.push_back({row.domain, row.op_type, order, name, row.since_min, row.since_max,
                         std::string(row.limits) + (row.joins ? "; joins" : "")});
    ++order;
  }
  std::ranges::sort(entries, {}, [](const Entry& e) {
    return std::tuple(e.domain, e.op_type, e.order, e.since_min);
  });
  return entries;
}

std::string_view shown(std::string_view domain) { return domain.empty() ? "ai.onnx" : domain; }

std::string since(const Entry& entry) {
  if (entry.since_min == entry.since_max) return std::format("{}", entry.since_min);
  return std::format("{} to {}", entry.since_min, entry.since_max);
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

/// A link to the heading of each domain.
std::string contents(const std::vector<Entry>& entries) {
  std::string text;
  const Entry* before = nullptr;
  for (const Entry& entry : entries) {
    const bool same = before != nullptr && before->domain == entry.domain;
    before = &entry;
    if (same) continue;
    std::string anchor(shown(entry.domain));
    std::erase(anchor, '.');
    text += std::format("- [{}](#{})\n", shown(entry.domain), anchor);
  }
  return text;
}

}  // namespace

Result<std::string> operators_markdown() {
  const std::vector<Entry> entries = CTXGEN_TRY(collect());
  std::string text = std::string(kIntroduction) + contents(entries);
  const Entry* before = nullptr;
  for (const Entry& entry : entries) {
    if (before == nullptr || before->domain != entry.domain)
      text +=
          std::format("\n## {}\n\n| operator | provider | since | limits |\n|---|---|---|---|\n",
                      shown(entry.domain));
    const bool same =
        before != nullptr && before->domain == entry.domain && before->op_type == entry.op_type;
    text += std::format("| {} | {} | {} | {} |\n", same ? "" : entry.op_type, entry.provider,
                        since(entry), escaped(entry.limits));
    before = &entry;
  }
  return text;
}

Result<std::string> operators_json() {
  const std::vector<Entry> entries = CTXGEN_TRY(collect());
  JsonWriter json;
  json.begin_object().key("operators").begin_array();
  for (const Entry& entry : entries)
    json.begin_object()
        .field("domain", shown(entry.domain))
        .field("op_type", entry.op_type)
        .field("provider", entry.provider)
        .field("since_min", entry.since_min)
        .field("since_max", entry.since_max)
        .field("limits", entry.limits)
        .end_object();
  json.end_array().end_object();
  return json.finish();
}

}  // namespace ctxgen::cli
