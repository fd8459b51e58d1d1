#include "running/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <format>
#include <utility>

namespace ctxgen::plugin {
namespace {

constexpr std::size_t kMostEvents = 1'000'000;  // as many as ONNX Runtime keeps
constexpr unsigned kCategoryKernel = 2;

/// ONNX Runtime writes names into its file without escapes.
std::string plain(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') c = '_';
  return text;
}

/// A node's event that is open on a thread.
struct OpenEvent {
  std::uint64_t profiler = 0, event = 0;
};

/// Several: a session and its run may be profiled, and a node of one session may run another. Those deeper than this
/// have no events. There is nothing to destroy: sessions may be destroyed after the thread's objects.
struct OpenEvents {
  std::array<OpenEvent, 16> events;
  std::size_t count;
  [[nodiscard]] std::span<OpenEvent> all() { return std::span(events).first(count); }
};
constinit thread_local OpenEvents open_events{};

void begin_event(OpenEvent event) noexcept {
  if (open_events.count < open_events.events.size())
    open_events.events[open_events.count++] = event;
}

void end_event(OpenEvent event) noexcept {
  const auto others = std::ranges::remove_if(open_events.all(), [&](const OpenEvent& one) {
    return one.profiler == event.profiler && one.event == event.event;
  });
  open_events.count -= others.size();
}

}  // namespace

class OpProfiles::Profiler final : public OrtEpProfilerImpl {
 public:
  Profiler(const OrtApis& ort, const OrtLogger* logger, std::shared_ptr<OpProfiles> profiles)
      : OrtEpProfilerImpl{}, ort_(ort), logger_(logger), profiles_(std::move(profiles)) {
    static std::atomic<std::uint64_t> counter{0};
    number_ = ++counter;
    ort_version_supported = ort_.tables_version;
    Release = [](OrtEpProfilerImpl* self) noexcept { delete static_cast<Profiler*>(self); };
    StartProfiling = [](OrtEpProfilerImpl* self, std::int64_t since_start_ns) noexcept {
      auto& profiler = *static_cast<Profiler*>(self);
      return guarded(*profiler.ort_.api, "starting a profile",
                     [&] { return profiler.start(since_start_ns); });
    };
    StartEvent = [](OrtEpProfilerImpl* self, std::uint64_t event) noexcept -> OrtStatus* {
      begin_event({static_cast<Profiler*>(self)->number_, event});
      return nullptr;
    };
    StopEvent = [](OrtEpProfilerImpl* self, std::uint64_t event,
                   const OrtProfilingEvent*) noexcept -> OrtStatus* {
      end_event({static_cast<Profiler*>(self)->number_, event});
      return nullptr;
    };
    EndProfiling = [](OrtEpProfilerImpl* self, OrtProfilingEventsContainer* timeline) noexcept {
      auto& profiler = *static_cast<Profiler*>(self);
      return guarded(*profiler.ort_.api, "ending a profile",
                     [&] { return profiler.end(*timeline); });
    };
  }

 private:
  friend class OpProfiles;
  ~Profiler() { (void)take(); }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  Status start(std::int64_t since_start_ns) {
    constexpr double kNsPerUs = 1000;
    start_us_ = steady_us() - static_cast<double>(since_start_ns) / kNsPerUs;
    const std::lock_guard lock(profiles_->mutex_);
    profiles_->recordings_[number_] = {};
    return {};
  }

  [[nodiscard]] Recording take() {
    const std::lock_guard lock(profiles_->mutex_);
    auto node = profiles_->recordings_.extract(number_);
    return node.empty() ? Recording() : std::move(node.mapped());
  }

  Status end(OrtProfilingEventsContainer& timeline) {
    const Recording recording = take();
    for (const Event& event : recording.events) CTXGEN_CHECK(add(timeline, event));
    if (recording.dropped > 0)
      log_message(ort_, logger_, ORT_LOGGING_LEVEL_WARNING,
                  std::format("the profile lacks {} ops of compiled nodes: it holds {} at most",
                              recording.dropped, kMostEvents));
    return {};
  }

  [[nodiscard]] Status add(OrtProfilingEventsContainer& timeline, const Event& event) const {
    const OpTiming& op = event.op;
    const std::array keys{"op_name", "implementation", "partition", "flops",
                          "bytes",   "node_event",     "provider"};
    const std::string name = plain(op.name), partition = plain(*event.partition);
    const std::string flops = std::format("{:.0f}", op.flops), bytes = std::to_string(op.bytes),
                      parent = std::to_string(event.parent);
    const std::array values{op.kind.c_str(),   op.implementation.c_str(),
                            partition.c_str(), flops.c_str(),
                            bytes.c_str(),     parent.c_str(),
                            "ctxgen"};
    static_assert(keys.size() == values.size());
    const auto& ep = static_cast<const EpApiTable&>(*ort_.ep);
    OrtProfilingEvent* made = nullptr;
    CTXGEN_CHECK(from_ort(
        *ort_.api, ep.CreateProfilingEvent(kCategoryKernel, ::getpid(), event.thread, name.c_str(),
                                           std::llround(op.start_us - start_us_),
                                           std::llround(op.microseconds), keys.data(),
                                           values.data(), keys.size(), &made)));
    const OrtProfilingEvent* one = made;
    const Status added =
        from_ort(*ort_.api, ep.ProfilingEventsContainer_AddEvents(&timeline, &one, 1));
    ep.ReleaseProfilingEvent(made);
    return added;
  }

  OrtApis ort_;
  const OrtLogger* logger_;
  std::shared_ptr<OpProfiles> profiles_;
  std::uint64_t number_ = 0;
  double start_us_ = 0;  // of ONNX Runtime's timeline
};

bool OpProfiles::wanted() const noexcept {
  if (open_events.count == 0) return false;
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(open_events.all(), [&](const OpenEvent& event) {
    return recordings_.contains(event.profiler);
  });
}

void OpProfiles::add(std::span<const OpTiming> ops, const std::string& partition) {
  const auto name = std::make_shared<const std::string>(partition);
  const auto thread = static_cast<std::int32_t>(::gettid());
  const std::lock_guard lock(mutex_);
  for (std::size_t i = open_events.count; i-- > 0;) {
    const OpenEvent& event = open_events.events[i];
    // A node that runs others has an event around theirs.
    const auto inner = open_events.all().subspan(i + 1);
    if (std::ranges::contains(inner, event.profiler, &OpenEvent::profiler)) continue;
    const auto found = recordings_.find(event.profiler);
    if (found == recordings_.end()) continue;
    Recording& recording = found->second;
    const std::size_t room = kMostEvents - recording.events.size();
    for (const OpTiming& op : ops.first(std::min(room, ops.size())))
      recording.events.push_back({op, name, thread, event.event});
    recording.dropped += ops.size() - std::min(room, ops.size());
  }
}

OrtEpProfilerImpl* OpProfiles::make_profiler(const OrtApis& ort, const OrtLogger* logger,
                                             std::shared_ptr<OpProfiles> profiles) {
  return new Profiler(ort, logger, std::move(profiles));
}

}  // namespace ctxgen::plugin
