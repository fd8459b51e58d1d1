#include "running/value_summary.h"

#include <algorithm>
#include <limits>

#include "ctxgen/runtime/elements.h"

namespace ctxgen::cli {

std::optional<ValueSummary> summarise(const RuntimeValue& value) {
  if (!value.is_tensor()) return {};
  const Tensor& tensor = value.tensor();
  if (!ElementReader::has_numbers(tensor.type()) || tensor.element_count() == 0) return {};
  const ElementReader reader(tensor);
  ValueSummary summary{std::numeric_limits<double>::infinity(),
                       -std::numeric_limits<double>::infinity(), 0};
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    const double element = reader.at(i);
    summary.least = std::min(summary.least, element);
    summary.greatest = std::max(summary.greatest, element);
    summary.mean += element;
  }
  summary.mean /= static_cast<double>(tensor.element_count());
  return summary;
}

void write_value_fields(JsonWriter& json, const RuntimeValue& value) {
  if (value.is_tensor()) {
    json.field("type", name_of(value.tensor().type())).list("dims", value.tensor().dims());
  } else {
    json.field("type", describe(value));
  }
  if (const auto summary = summarise(value))
    json.field("min", summary->least).field("max", summary->greatest).field("mean", summary->mean);
}

}  // namespace ctxgen::cli
