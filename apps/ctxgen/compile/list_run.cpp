#include "compile/list_run.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <format>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "ctxgen/base/json.h"
#include "ctxgen/base/stopwatch.h"

#include "term/console.h"
#include "term/interrupt.h"
#include "term/program_file.h"
#include "term/time_left.h"

extern char** environ;

namespace ctxgen::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// A file without a name that takes what a process prints.
class Capture {
 public:
  [[nodiscard]] static Result<Capture> make() {
    std::FILE* file = std::tmpfile();
    if (file == nullptr)
      return fail(ErrorCode::kIoError, "a temporary file: {}", std::strerror(errno));
    fcntl(fileno(file), F_SETFD, FD_CLOEXEC);
    return Capture(file);
  }
  Capture(Capture&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  Capture& operator=(Capture&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Capture() {
    if (file_ != nullptr) std::fclose(file_);
  }
  [[nodiscard]] int descriptor() const { return fileno(file_); }
  [[nodiscard]] std::string text() const {
    std::string all;
    std::array<char, 65536> part{};
    for (off_t at = 0;;) {
      const ssize_t n = pread(descriptor(), part.data(), part.size(), at);
      if (n <= 0) return all;
      all.append(part.data(), static_cast<std::size_t>(n));
      at += n;
    }
  }

 private:
  explicit Capture(std::FILE* file) : file_(file) {}
  std::FILE* file_;
};

/// A JSON document on one line: line ends are between its parts only.
std::string on_one_line(std::string_view json) {
  std::string line;
  while (!json.empty()) {
    line += json.substr(0, json.find('\n'));
    json.remove_prefix(std::min(json.find('\n'), json.size()));
    json.remove_prefix(std::min(json.find_first_not_of("\n "), json.size()));
  }
  return line;
}

struct Counts {
  std::size_t compiled = 0, current = 0, failed = 0;
  [[nodiscard]] std::size_t all() const { return compiled + current + failed; }
};

class ListRunner {
 public:
  ListRunner(std::span<const ListedModel> models, const ListRun& how) : models_(models), how_(how) {
    bar_ = !how.verbosity.quiet && isatty(STDERR_FILENO) != 0;
  }
  ~ListRunner() { stop(); }
  ListRunner(const ListRunner&) = delete;
  ListRunner& operator=(const ListRunner&) = delete;

  Result<int> run() {
    const std::size_t limit =
        how_.processes > 0 ? how_.processes : std::max(1U, std::thread::hardware_concurrency());
    std::size_t next = 0;
    draw();
    while (next < models_.size() || !running_.empty()) {
      while (next < models_.size() && running_.size() < limit) CTXGEN_CHECK(start(models_[next++]));
      CTXGEN_CHECK(finish_one());
      draw();
    }
    clear();
    CTXGEN_CHECK(summarise());
    if (counts_.failed == 0) return 0;
    return fail(ErrorCode::kNotSatisfied,
                "{} of {} failed; the same command tries them again and leaves the others",
                counts_.failed, count_text(models_.size(), "model"));
  }

 private:
  struct Running {
    const ListedModel* model;
    Capture output, errors;
    Clock::time_point start;
  };

  Status start(const ListedModel& model) {
    Capture output = CTXGEN_TRY(Capture::make()), errors = CTXGEN_TRY(Capture::make());
    std::vector<std::string> words{"ctxgen", "compile",    "-o", model.output_argument,
                                   "--json", "--if-needed"};
    for (const GivenOption& given : how_.common)
      if (!model.options.contains(given.option))
        std::ranges::copy(given.words, std::back_inserter(words));
    const bool says_jobs = std::ranges::any_of(
        model.options, [](const CLI::Option* option) { return option->check_name("--jobs"); });
    if (!says_jobs) words.insert(words.end(), {"--jobs", "1"});
    std::ranges::copy(model.words, std::back_inserter(words));
    words.insert(words.end(), {"--", model.model});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output.descriptor(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors.descriptor(), STDERR_FILENO);
    pid_t process = 0;
    const int failed =
        posix_spawn(&process, program_file().c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
      return fail(ErrorCode::kIoError, "starting ctxgen for \"{}\": {}", model.model,
                  std::strerror(failed));
    running_.emplace(process, Running{&model, std::move(output), std::move(errors), Clock::now()});
    return {};
  }

  /// Waits for one process to end.
  Status finish_one() {
    int status = 0;
    pid_t process = 0;
    while ((process = waitpid(-1, &status, WNOHANG)) ==
           0) {  // a signal would not end a longer wait
      if (interrupted()) return fail(ErrorCode::kCancelled, "interrupted");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (process < 0 && errno == EINTR) return {};
    if (process < 0) return fail(ErrorCode::kInternal, "waitpid: {}", std::strerror(errno));
    const auto found = running_.find(process);
    if (found == running_.end()) return {};
    const Running one = std::move(found->second);
    running_.erase(found);
    return report(one, status);
  }

  Status report(const Running& one, int status) {
    const std::string output = one.output.text();
    const bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const bool current = done && output.contains("\n  \"up_to_date\": true");
    const std::string_view state = !done ? "failed" : current ? "current" : "compiled";
    ++(!done ? counts_.failed : current ? counts_.current : counts_.compiled);
    clear();
    if (!how_.verbosity.quiet || !done) pass_on(one.errors.text());
    const double seconds = seconds_since(one.start);
    if (how_.json) return print(json_line(one, state, seconds, output, status));
    if (!done && !WIFEXITED(status))
      warn(std::format("{}:{}: \"{}\": {}", how_.file, one.model->line, one.model->model,
                       ending(status)));
    if (how_.verbosity.quiet) return {};
    return print(std::format("{} -> {}: {}, {:.2f} s\n", one.model->model,
                             one.model->output.string(), state, seconds));
  }

  static std::string ending(int status) {
    return std::format("the process was ended by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  }

  static void pass_on(const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }

  std::string json_line(const Running& one, std::string_view state, double seconds,
                        const std::string& output, int status) const {
    JsonWriter json;
    json.begin_object()
        .field("model", one.model->model)
        .field("line", std::uint64_t{one.model->line})
        .field("output", one.model->output.string())
        .field("state", state)
        .field("seconds", seconds);
    if (state == "failed" && !output.starts_with('{')) {
      json.key("error")
          .begin_object()
          .field("code", error_info(ErrorCode::kInternal).printed)
          .field("status", error_info(ErrorCode::kInternal).exit_status)
          .field("message", WIFEXITED(status) ? "the process ended without a word" : ending(status))
          .end_object();
    }
    json.end_object();
    std::string line = on_one_line(json.finish());
    if (!output.starts_with('{')) return line + "\n";
    // The process's own words: {"error": ...}, or its report.
    const std::string words = on_one_line(output);
    line.pop_back();
    if (words.starts_with("{\"error\""))
      return line + "," + words.substr(1, words.size() - 2) + "}\n";
    return line + ",\"report\": " + words + "}\n";
  }

  Status summarise() const {
    const double seconds = seconds_since(begin_);
    if (how_.json) {
      JsonWriter json;
      json.begin_object()
          .field("models", std::uint64_t{models_.size()})
          .field("compiled", std::uint64_t{counts_.compiled})
          .field("current", std::uint64_t{counts_.current})
          .field("failed", std::uint64_t{counts_.failed})
          .field("seconds", seconds)
          .end_object();
      return print(on_one_line(json.finish()) + "\n");
    }
    if (how_.verbosity.quiet) return {};
    return print(std::format("{}: {} compiled, {} current, {} failed; {:.2f} s\n",
                             count_text(models_.size(), "model"), counts_.compiled, counts_.current,
                             counts_.failed, seconds));
  }

  void draw() {
    if (!bar_ || models_.empty()) return;
    constexpr std::size_t kWidth = 32;
    const std::size_t filled = counts_.all() * kWidth / models_.size();
    const std::string left =
        left_.text(static_cast<double>(counts_.all()) / static_cast<double>(models_.size()));
    std::fputs(std::format("\r\x1b[K[{}{}] {} of {}, {} failed{}{}", std::string(filled, '#'),
                           std::string(kWidth - filled, '.'), counts_.all(), models_.size(),
                           counts_.failed, left.empty() ? "" : ", ", left)
                   .c_str(),
               stderr);
    std::fflush(stderr);
    drawn_ = true;
  }
  void clear() {
    if (!std::exchange(drawn_, false)) return;
    std::fputs("\r\x1b[K", stderr);
    std::fflush(stderr);
  }

  /// Those that still run clean up after themselves.
  void stop() {
    clear();
    for (const auto& [process, one] : running_) kill(process, SIGTERM);
    for (const auto& [process, one] : running_)
      while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
      }
  }

  std::span<const ListedModel> models_;
  const ListRun& how_;
  std::map<pid_t, Running> running_;
  Counts counts_;
  Clock::time_point begin_ = Clock::now();
  TimeLeft left_;
  bool bar_ = false, drawn_ = false;
};

}  // namespace

Result<int> run_list(std::span<const ListedModel> models, const ListRun& how) {
  return ListRunner(models, how).run();
}

}  // namespace ctxgen::cli
