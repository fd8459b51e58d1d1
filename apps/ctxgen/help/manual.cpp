#include "help/manual.h"

#include <algorithm>
#include <format>
#include <string_view>

#include "ctxgen/base/version.h"

#include "flags/arguments.h"

namespace ctxgen::cli {
namespace {

/// Text that roff takes as it is.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
      continue;
    }
    if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
    if (c == '-') result += '\\';
    result += c;
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string head(std::string_view page, std::string_view text) {
  std::string capitals(page);
  for (char& c : capitals) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return std::format(".TH \"{}\" 1 \"\" \"ctxgen {}\" \"ctxgen\"\n.SH NAME\n{} \\- {}\n",
                     escaped(capitals), CTXGEN_VERSION_STRING, escaped(page), escaped(text));
}

/// A text whose lines are kept.
std::string verbatim(std::string_view title, std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (text.empty()) return "";
  return std::format(".SH {}\n.nf\n{}\n.fi\n", title, escaped(text));
}

std::string flag_paragraph(const FlagEntry& flag) {
  std::string tag;
  for (const std::string& name : flag.names) tag += (tag.empty() ? "" : ", ") + bold(name);
  if (!flag.value.empty()) tag += (tag.empty() ? "" : " ") + italic(flag.value);
  return ".TP\n" + tag + "\n" + escaped(flag.text) + "\n";
}

}  // namespace

std::string manual_of_program(const CLI::App& app, std::span<const VerbEntry> verbs) {
  std::string text = head("ctxgen", "compile ONNX models ahead of time and run the result");
  text += ".SH SYNOPSIS\n" + bold("ctxgen") + " " + italic("COMMAND") + " [" + italic("OPTIONS") +
          "]\n";
  text += ".SH DESCRIPTION\n" + escaped(app.get_description()) + "\n.SH COMMANDS\n";
  for (const VerbEntry& verb : verbs)
    text += ".TP\n" + bold("ctxgen-" + verb.name) + "(1)\n" + escaped(verb.text) + "\n";
  return text + verbatim("EXAMPLES AND EXIT STATUS", app.get_footer());
}

std::string manual_of_verb(const VerbEntry& verb) {
  std::string text = head("ctxgen-" + verb.name, verb.text);
  text += ".SH SYNOPSIS\n" + bold("ctxgen " + verb.name);
  for (const FlagEntry& argument : verb.arguments)
    text += " " + (argument.required ? italic(argument.value) : "[" + italic(argument.value) + "]");
  if (!verb.verbs.empty()) text += " " + italic("COMMAND");
  text += " [" + italic("OPTIONS") + "]\n";
  if (!verb.arguments.empty()) text += ".SH ARGUMENTS\n";
  for (const FlagEntry& argument : verb.arguments) text += flag_paragraph(argument);
  if (!verb.verbs.empty()) text += ".SH COMMANDS\n";
  for (const VerbEntry& one : verb.verbs) {
    text += ".TP\n" + bold(one.name) + "\n" + escaped(one.text) + "\n";
    for (const FlagEntry& option : one.options)
      if (!std::ranges::contains(option.names, "--help")) text += flag_paragraph(option);
  }
  text += ".SH OPTIONS\n";
  for (const FlagEntry& option : verb.options) text += flag_paragraph(option);
  return text + verbatim("NOTES", verb.notes) + ".SH SEE ALSO\n" + bold("ctxgen") + "(1)\n";
}

}  // namespace ctxgen::cli
