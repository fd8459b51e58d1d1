#include "help/help_format.h"

#include <format>
#include <string>

#include "flags/flag_table.h"

namespace ctxgen::cli {
namespace {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) return CLI::Formatter::make_option_name(option, true);
    std::string names;
    for (const std::string& name : flag_of(*option).names)
      names += (names.empty() ? "" : ",") + name;
    return names;
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_name();
    std::string text;
    // A flag with a value after "=" has the "=" in the name of its type.
    if (option->get_items_expected_min() == 0)
      text = type.starts_with("[=") ? type : "";
    else if (!type.empty())
      text = " " + type;
    return text + (option->get_required() ? " REQUIRED" : "");
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return flag_of(*option).text;
  }
};

}  // namespace

std::shared_ptr<CLI::Formatter> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace ctxgen::cli
