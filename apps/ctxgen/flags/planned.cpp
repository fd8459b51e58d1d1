#include "flags/planned.h"

namespace ctxgen::cli {
namespace {

struct Planned {
  std::string_view verb;
  std::string_view option;  // "": the verb itself
};

constexpr Planned kPlanned[] = {
    {"compile", "--tune"},
};

constexpr std::string_view kText = "not implemented yet (planned)";

bool names_option(std::string_view argument, std::string_view option) {
  if (!argument.starts_with(option)) return false;
  return argument.size() == option.size() || argument[option.size()] == '=';
}

}  // namespace

Status refuse_planned(std::span<const char* const> arguments) {
  if (arguments.size() < 2) return {};
  const std::string_view verb = arguments[1];
  for (const Planned& planned : kPlanned)
    if (planned.verb == verb && planned.option.empty())
      return fail(ErrorCode::kInvalidArgument, "{}: {}", verb, kText);
  for (const std::string_view argument : arguments.subspan(2)) {
    if (argument == "--") break;
    for (const Planned& planned : kPlanned)
      if (planned.verb == verb && names_option(argument, planned.option))
        return fail(ErrorCode::kInvalidArgument, "{} {}: {}", verb, planned.option, kText);
  }
  return {};
}

std::string planned_options_text(std::string_view verb) {
  std::string names;
  for (const Planned& planned : kPlanned)
    if (planned.verb == verb && !planned.option.empty())
      names.append(names.empty() ? "" : ", ").append(planned.option);
  return names.empty() ? "" : "Not implemented yet, refused by name: " + names + "\n";
}

}  // namespace ctxgen::cli
