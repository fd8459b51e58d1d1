#include "report/report_page.h"

#include <string_view>

#include "report/page_parts.h"

namespace ctxgen::cli {
namespace {

/// Text as HTML shows it. Control characters, which HTML does not allow, become U+FFFD.
std::string html_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default:
        if (static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t')
          result += "\xEF\xBF\xBD";
        else
          result += c;
    }
  }
  return result;
}

/// JSON without blanks between its words, and without any character that means something to HTML.
/// Those are in strings only, where JSON can write them otherwise.
std::string for_script(std::string_view json) {
  std::string result;
  result.reserve(json.size() / 2);
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (!quoted && (c == ' ' || c == '\n')) continue;
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\' && i + 1 < json.size()) {
      result += c;
      result += json[++i];
      continue;
    }
    switch (c) {
      case '<': result += "\\u003c"; break;
      case '>': result += "\\u003e"; break;
      case '&': result += "\\u0026"; break;
      default: result += c;
    }
  }
  return result;
}

}  // namespace

std::string report_page(std::string_view title, std::string_view sentence,
                        std::span<const std::string> data) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n<title>" +
      html_text(title) + "</title>\n<style>\n" + std::string(kPageStyle) +
      "</style>\n</head>\n<body>\n<div id=\"page\">\n<h1>" + html_text(title) + "</h1>\n<p>" +
      html_text(sentence) +
      "</p>\n<noscript><p>Tables and pictures need scripts; the data is in this file as "
      "JSON.</p></noscript>\n</div>\n";
  for (const std::string& one : data)
    page += "<script type=\"application/json\" class=\"report\">" + for_script(one) + "</script>\n";
  page += "<script>\n\"use strict\";\n(() => {\n" + std::string(kPageScript) +
          "})();\n</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace ctxgen::cli
