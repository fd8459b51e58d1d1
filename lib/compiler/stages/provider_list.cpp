#include "stages/provider_list.h"

#include <algorithm>
#include <span>
#include <string>

#include "ctxgen/base/suggest.h"
#include "ctxgen/registry/providers.h"

#include "output/output_names.h"

namespace ctxgen {
namespace {

/// cpu takes what is left, so nothing is left for who comes after it.
Status check_order(std::span<const std::string> names) {
  const auto cpu = std::ranges::find_if(names, is_cpu_provider);
  if (cpu == names.end() || cpu + 1 == names.end() || is_cpu_provider(*(cpu + 1))) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "provider \"{}\" comes after \"{}\", which takes all that is left: put it first, or leave it out",
      *(cpu + 1), *cpu);
}

}  // namespace

Result<ProviderList> ProviderList::make(const CompileOptions& options) {
  ProviderList list;
  std::vector<std::string> names = options.providers;
  if (names.empty()) names = default_providers();
  if (std::ranges::none_of(names, is_cpu_provider)) names.emplace_back("cpu");
  CTXGEN_CHECK(check_order(names));
  for (const std::string& name : names) {
    const Provider* provider = nullptr;
    for (const Provider* extra : options.extra_providers)
      if (same_name(extra->name(), name) || same_name(extra->source(), name)) provider = extra;
    if (provider == nullptr) {
      list.owned_.push_back(CTXGEN_TRY(make_provider(name)));
      provider = list.owned_.back().get();
    }
    for (const Provider* other : list.all_)
      if (other->name() == provider->name())
        return fail(ErrorCode::kInvalidArgument, "provider \"{}\" is given twice",
                    provider->name());
    list.all_.push_back(provider);
    list.options_.emplace_back();
  }
  for (const auto& [name, option] : options.provider_options) {
    const auto it = std::ranges::find_if(list.all_, [&](const Provider* p) {
      return same_name(p->name(), name) || same_name(p->source(), name);
    });
    if (it == list.all_.end())
      return fail(ErrorCode::kInvalidArgument,
                  "option \"{}\" is for provider \"{}\", which is not used", option.first, name);
    const auto known = (*it)->option_names();
    if (std::ranges::find(known, option.first) == known.end())
      return fail(ErrorCode::kInvalidArgument, "provider \"{}\" has no option \"{}\"{}; it has: {}",
                  name, option.first, did_you_mean(option.first, known), list_text(known));
    list.options_[static_cast<std::size_t>(it - list.all_.begin())].push_back(option);
  }
  for (std::size_t p = 0; p < list.all_.size(); ++p)
    CTXGEN_CHECK(list.all_[p]->check_options(list.options_[p]));
  return list;
}

int ProviderList::find_source(std::string_view source) const {
  for (std::size_t p = 0; p < all_.size(); ++p)
    if (all_[p]->source() == source) return static_cast<int>(p);
  return -1;
}

}  // namespace ctxgen
