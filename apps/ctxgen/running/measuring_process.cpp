#include "running/measuring_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <type_traits>
#include <utility>

namespace ctxgen::cli {
namespace {

/// What the process is asked: the path of a context model, "" for the model of the request.
struct Question {
  std::array<char, 4096> compiled{};  // PATH_MAX
};

/// What it answers.
struct Answer {
  bool succeeded = false;
  ErrorCode code = ErrorCode::kInternal;
  BenchNumbers numbers;
  std::array<char, 2048> text{};  // the error, or the sizes of the inputs
};

template <std::size_t N>
void put(std::array<char, N>& to, std::string_view text) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), N - 1));
}

template <class T>
bool send(int pipe, const T& message) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto* bytes = reinterpret_cast<const char*>(&message);
  for (std::size_t at = 0; at < sizeof(message);) {
    const ssize_t count = write(pipe, bytes + at, sizeof(message) - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<std::size_t>(count);
  }
  return true;
}

template <class T>
bool receive(int pipe, T& message) {
  static_assert(std::is_trivially_copyable_v<T>);
  auto* bytes = reinterpret_cast<char*>(&message);
  for (std::size_t at = 0; at < sizeof(message);) {
    const ssize_t count = read(pipe, bytes + at, sizeof(message) - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<std::size_t>(count);
  }
  return true;
}

/// Of the model that was compiled as the request says: what is left of its flags is about running it.
BenchRequest of_compiled(BenchRequest request, const std::string& path) {
  ModelFlags flags;
  flags.options.threads = request.flags.options.threads;
  flags.dims = std::move(request.flags.dims);
  flags.shapes = std::move(request.flags.shapes);
  flags.kept_plans = request.flags.kept_plans;
  flags.states = std::move(request.flags.states);
  request.flags = std::move(flags);
  request.compile_flag.clear();
  request.model = path;
  return request;
}

Answer answer_of(const BenchRequest& request) {
  Answer answer;
  try {
    const auto result = measure(request);
    answer.succeeded = result.has_value();
    if (result) {
      answer.numbers = result->numbers;
      put(answer.text, result->inputs_text);
    } else {
      answer.code = result.error().code;
      put(answer.text, result.error().message);
    }
  } catch (const std::exception& error) {
    put(answer.text, error.what());
  }
  return answer;
}

void serve(const BenchRequest& request, int questions, int answers) {
  Question question;
  if (!receive(questions, question)) return;  // the other process has ended
  const std::string compiled = question.compiled.data();
  send(answers, answer_of(compiled.empty() ? request : of_compiled(request, compiled)));
}

}  // namespace

struct MeasuringProcess::Impl {
  std::string model;  // for messages
  pid_t process = -1;
  int questions = -1, answers = -1;
  int status = 0;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (process > 0) kill(process, SIGKILL);  // one that was forked later may hold its pipe open
    end();
  }
  void end() {
    for (int* fd : {&questions, &answers})
      if (*fd >= 0) close(std::exchange(*fd, -1));
    while (process > 0 && waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    process = -1;
  }
};

MeasuringProcess::MeasuringProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MeasuringProcess::MeasuringProcess(MeasuringProcess&&) noexcept = default;
MeasuringProcess& MeasuringProcess::operator=(MeasuringProcess&&) noexcept = default;
MeasuringProcess::~MeasuringProcess() = default;

Result<MeasuringProcess> MeasuringProcess::start(const BenchRequest& request) {
  auto impl = std::make_unique<Impl>();
  impl->model = request.model;
  std::array<int, 2> questions{-1, -1}, answers{-1, -1};
  if (pipe(questions.data()) != 0 || pipe(answers.data()) != 0) {
    const int cause = errno;
    for (const int fd : questions)
      if (fd >= 0) close(fd);
    return fail(ErrorCode::kIoError, "pipe: {}", std::strerror(cause));
  }
  impl->questions = questions[1];
  impl->answers = answers[0];
  const pid_t child = fork();
  const int cause = errno;
  if (child == 0) {
    close(questions[1]);
    close(answers[0]);
    serve(request, questions[0], answers[1]);
    _exit(0);
  }
  close(questions[0]);
  close(answers[1]);
  if (child < 0) return fail(ErrorCode::kResourceLimit, "fork: {}", std::strerror(cause));
  impl->process = child;
  return MeasuringProcess(std::move(impl));
}

Result<BenchResult> MeasuringProcess::measure() { return measure(""); }

Result<BenchResult> MeasuringProcess::measure(const std::string& compiled) {
  Question question;
  if (compiled.size() >= question.compiled.size())
    return fail(ErrorCode::kIoError, "\"{}\": the path is too long", compiled);
  put(question.compiled, compiled);
  Answer answer;
  const bool complete = send(impl_->questions, question) && receive(impl_->answers, answer);
  impl_->end();
  if (!complete)
    return fail(ErrorCode::kInternal, "the process that measured \"{}\" ended with status {}",
                impl_->model, impl_->status);
  if (!answer.succeeded) return fail(answer.code, "{}", answer.text.data());
  BenchResult result;
  result.numbers = answer.numbers;
  result.inputs_text = answer.text.data();
  return result;
}

Result<BenchResult> measure_apart(const BenchRequest& request) {
  MeasuringProcess process = CTXGEN_TRY(MeasuringProcess::start(request));
  return process.measure();
}

}  // namespace ctxgen::cli
