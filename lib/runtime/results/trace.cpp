#include "ctxgen/runtime/trace.h"

#include <algorithm>
#include <format>
#include <limits>
#include <set>
#include <string_view>

#include "ctxgen/base/file.h"
#include "ctxgen/base/json.h"

namespace ctxgen {
namespace {

double start_of(std::span<const OpTiming> ops) {
  return std::ranges::min(ops, {}, &OpTiming::start_us).start_us;
}
double end_of(std::span<const OpTiming> ops) {
  return std::ranges::max(ops, {}, &OpTiming::end_us).end_us;
}

struct Event {
  std::string_view name, category;
  std::uint32_t lane = 0;
  double start_us = 0, end_us = 0;
};

/// Leaves the event open for "args".
void begin_event(JsonWriter& json, const Event& event) {
  json.begin_object()
      .field("name", event.name)
      .field("cat", event.category)
      .field("ph", "X")
      .field("pid", 1)
      .field("tid", std::uint64_t{event.lane})
      .field("ts", event.start_us)
      .field("dur", event.end_us - event.start_us)
      .key("args")
      .begin_object();
}

void write_op(JsonWriter& json, const OpTiming& op, std::uint32_t lane, double first_us) {
  begin_event(json, {op.name, op.kind, lane, op.start_us - first_us, op.end_us - first_us});
  json.field("kind", op.kind).field("implementation", op.implementation);
  json.field("own_us", op.microseconds);
  if (op.flops > 0) json.field("flops", op.flops);
  if (op.bytes > 0) json.field("bytes", op.bytes);
  if (op.flops > 0 && op.microseconds > 0)
    json.field("gflops_per_second", op.flops / op.microseconds / 1e3);
  if (op.bytes > 0 && op.microseconds > 0)
    json.field("gbytes_per_second", static_cast<double>(op.bytes) / op.microseconds / 1e3);
  json.end_object().end_object();
}

void write_lane(JsonWriter& json, std::uint32_t lane) {
  json.begin_object()
      .field("name", "thread_name")
      .field("ph", "M")
      .field("pid", 1)
      .field("tid", std::uint64_t{lane})
      .key("args")
      .begin_object()
      .field("name", std::format("context {}", lane))
      .end_object()
      .end_object();
}

}  // namespace

void Trace::add_run(std::uint32_t lane, std::span<const OpTiming> timings) {
  if (!timings.empty()) runs_.push_back({lane, {timings.begin(), timings.end()}});
}

std::string Trace::json() const {
  double first_us = std::numeric_limits<double>::infinity();
  std::set<std::uint32_t> lanes;
  for (const Run& run : runs_) {
    first_us = std::min(first_us, start_of(run.ops));
    lanes.insert(run.lane);
  }
  JsonWriter json;
  json.begin_object().field("displayTimeUnit", "ms").key("traceEvents").begin_array();
  for (const std::uint32_t lane : lanes) write_lane(json, lane);
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = runs_[i];
    const std::string name = std::format("run {}", i);
    begin_event(json,
                {name, "run", run.lane, start_of(run.ops) - first_us, end_of(run.ops) - first_us});
    json.field("ops", std::uint64_t{run.ops.size()}).end_object().end_object();
    for (const OpTiming& op : run.ops) write_op(json, op, run.lane, first_us);
  }
  json.end_array().end_object();
  return json.finish();
}

Status write_trace(const Trace& trace, const std::filesystem::path& path) {
  return write_file(path, as_bytes(trace.json()));
}

}  // namespace ctxgen
