#include "running/bench_samples.h"

#include <algorithm>
#include <format>
#include <vector>

#include "running/bench_measure.h"

namespace ctxgen::cli {
namespace {

constexpr double kWidth = 800, kHeight = 320;
constexpr double kLeft = 70, kRight = 20, kTop = 40, kBottom = 40;
constexpr std::size_t kColumns = 700;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

/// From milliseconds since the first run and milliseconds of a run to places in the picture.
struct Scale {
  double seconds, most_ms;
  [[nodiscard]] double x(double start_ms) const {
    return kLeft + (kWidth - kLeft - kRight) * start_ms / (1e3 * seconds);
  }
  [[nodiscard]] double y(double ms) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * ms / most_ms;
  }
};

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return std::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string level(const Scale& scale, std::string_view name, double ms, std::string_view color) {
  const double y = scale.y(ms);
  return std::format(
             "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
             "stroke-dasharray=\"4 3\"/>\n",
             kLeft, kWidth - kRight, y, y, color) +
         text_at(kWidth - kRight, y - 4, "end", std::format("{} {:.3f} ms", name, ms));
}

std::string runs_line(const Scale& scale, std::span<const double> latencies) {
  const std::size_t step = std::max<std::size_t>(1, (latencies.size() + kColumns - 1) / kColumns);
  std::string points;
  double start = 0;
  for (std::size_t i = 0; i < latencies.size(); i += step) {
    const auto part = latencies.subspan(i, std::min(step, latencies.size() - i));
    const auto [least, greatest] = std::ranges::minmax(part);
    points += std::format("{:.1f},{:.1f} ", scale.x(start), scale.y(greatest));
    if (part.size() > 1) points += std::format("{:.1f},{:.1f} ", scale.x(start), scale.y(least));
    for (const double latency : part) start += latency;
  }
  return "<polyline fill=\"none\" stroke=\"#1f6feb\" points=\"" + points + "\"/>\n";
}

}  // namespace

std::string samples_csv(std::span<const double> latencies_ms) {
  std::string text = "run,start_ms,latency_ms\r\n";
  double start = 0;
  std::size_t run = 0;
  for (const double latency : latencies_ms) {
    text += std::format("{},{:.6f},{:.6f}\r\n", ++run, start, latency);
    start += latency;
  }
  return text;
}

std::string samples_svg(std::span<const double> latencies_ms, std::string_view title) {
  std::vector<double> sorted(latencies_ms.begin(), latencies_ms.end());
  std::ranges::sort(sorted);
  double total = 0;
  for (const double latency : sorted) total += latency;
  const Scale scale{std::max(total / 1e3, 1e-9), std::max(sorted.back() * 1.05, 1e-9)};
  std::string svg = std::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      kWidth, kHeight, escaped(title));
  svg += text_at(kLeft, kTop - 16, "start",
                 std::format("{}: {} runs, {:.1f} runs/s", title, sorted.size(),
                             1e3 * static_cast<double>(sorted.size()) / std::max(total, 1e-9)));
  for (int i = 0; i <= 4; ++i) {
    const double ms = scale.most_ms * i / 4;
    svg += std::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
                       kLeft, kWidth - kRight, scale.y(ms), scale.y(ms));
    svg += text_at(kLeft - 6, scale.y(ms) + 4, "end", std::format("{:.3g} ms", ms));
    svg += text_at(scale.x(250 * scale.seconds * i), kHeight - kBottom + 18, "middle",
                   std::format("{:.3g} s", scale.seconds * i / 4));
  }
  svg += runs_line(scale, latencies_ms);
  svg += level(scale, "p50", percentile(sorted, 0.5), "#1a7f37");
  svg += level(scale, "p99", percentile(sorted, 0.99), "#cf222e");
  return svg + "</svg>\n";
}

}  // namespace ctxgen::cli
