// ContextBuilder::share_layouts: one layout for weights that are equal before packing.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ctxgen/base/log.h"
#include "ctxgen/compiler/context_builder.h"

namespace ctxgen {
namespace {

using Layout = std::vector<std::byte>;

Hash128 hash_of(const std::map<Hash128, std::set<Layout>>& layouts) {
  Hasher hasher;
  for (const auto& [content, of_content] : layouts) {
    hasher.add(content.high);
    hasher.add(content.low);
    hasher.add(std::uint64_t{of_content.size()});
    for (const Layout& layout : of_content) hasher.add(as_text(layout));
  }
  return hasher.finish();
}

}  // namespace

/// Compiles the programs again that lack a layout which another one has for equal weights. Whether
/// there were any. One program that reads a weight in several ways has nothing to gain.
Result<bool> ContextBuilder::recompile(std::size_t provider) {
  Bin& bin = *bins_[provider];
  const auto layouts_of = [&](const Program& program) {
    std::map<Hash128, std::set<Layout>> layouts;
    for (const ProgramWeight& weight : program.weights)
      for (const PackedWeight& packed : weight.packed)
        layouts[bin.content_of(packed.blob.store_id())].insert(packed.layout);
    return layouts;
  };
  std::map<Hash128, std::set<Layout>> all;
  for (const Program& program : bin.programs)
    for (const auto& [content, layouts] : layouts_of(program))
      all[content].insert(layouts.begin(), layouts.end());
  std::vector<Job*> affected;
  for (Job& job : jobs_) {
    if (job.provider != provider) continue;
    const auto own = layouts_of(job.program);
    if (std::ranges::any_of(own, [&](const auto& one) { return one.second != all[one.first]; }))
      affected.push_back(&job);
  }
  std::erase_if(all, [](const auto& entry) { return entry.second.size() < 2; });
  for (const auto& [content, layouts] : all)
    for (const Layout& layout : layouts)
      if (!layout.empty()) bin.store.note_layout(content, layout);
  const Hash128 preferred = hash_of(all);
  std::optional<GraphView> view;  // jobs of one graph stand together
  bool changed = false;
  for (Job* job : affected) {
    if (!view || &view->graph() != job->graph) view.emplace(*job->model, *job->graph, target_);
    auto again = compile(provider, *view, std::span(&job->partition, 1), job->options, preferred);
    if (!again) {  // it stays with its own layouts, as it was compiled
      log(LogLevel::kInfo, "not compiled with shared layouts: {}", again.error().message);
      continue;
    }
    job->program = std::move(again->front());
    changed = true;
  }
  return changed;
}

Status ContextBuilder::share_layouts(std::span<std::vector<BuiltPartition>> built) {
  for (std::size_t p = 0; p < providers_.size(); ++p) {
    if (!CTXGEN_TRY(recompile(p))) continue;
    bins_[p]->keep_adopted_only();
    for (std::vector<BuiltPartition>& of_model : built)
      for (BuiltPartition& one : of_model)
        if (one.provider == p) CTXGEN_CHECK(settle(jobs_[one.job], one));
  }
  jobs_.clear();  // each holds a program a second time
  return {};
}

std::vector<SplitWeights> ContextBuilder::split_weights(std::size_t provider) const {
  const Bin& bin = *bins_[provider];
  struct Uses {
    std::set<StoreId> blobs;
    std::set<std::string> programs;
  };
  std::map<Hash128, Uses> contents;
  for (const Program& program : bin.programs)
    for (const ProgramWeight& weight : program.weights)
      for (const PackedWeight& packed : weight.packed) {
        Uses& uses = contents[bin.content_of(packed.blob.store_id())];
        uses.blobs.insert(packed.blob.store_id());
        uses.programs.insert(program.name);
      }
  std::map<std::set<std::string>, SplitWeights> groups;
  for (const auto& [content, uses] : contents) {
    if (uses.blobs.size() < 2) continue;
    std::uint64_t bytes = 0, largest = 0;
    for (const StoreId id : uses.blobs) {
      bytes += bin.store.blob(id).bytes.size();
      largest = std::max<std::uint64_t>(largest, bin.store.blob(id).bytes.size());
    }
    SplitWeights& group = groups[uses.programs];
    group.weights += 1;
    group.bytes += bytes;
    group.extra_bytes += bytes - largest;
  }
  std::vector<SplitWeights> list;
  for (auto& [programs, group] : groups) {
    group.programs.assign(programs.begin(), programs.end());
    list.push_back(std::move(group));
  }
  return list;
}

}  // namespace ctxgen
