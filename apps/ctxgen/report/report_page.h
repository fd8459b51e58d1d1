#pragma once

#include <span>
#include <string>

namespace ctxgen::cli {

/// One HTML page without references to anything outside: the template, and the data of one or two models
/// as JSON (report_data_json()) in script elements.
///
/// `title`  any text; so may be all names in the data: nothing of them ends a string or an element.
[[nodiscard]] std::string report_page(std::string_view title, std::string_view sentence,
                                      std::span<const std::string> data);

}  // namespace ctxgen::cli
