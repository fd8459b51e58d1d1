#include "compile/variant_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <format>
#include <utility>

#include "ctxgen/base/byte_io.h"
#include "ctxgen/base/file.h"

#include "term/program_file.h"

extern char** environ;

namespace ctxgen::cli {
namespace {

// Where the other process finds its ends.
constexpr int kRequestFd = 3;  // pipe: the request, to its end
constexpr int kStatusFd =
    4;  // pipe: one message once the instruction set is accepted, one at the end
constexpr int kAnswerFd = 5;  // a file without a name

constexpr std::uint64_t kMaxRequestBytes = std::uint64_t{1} << 31;
constexpr std::uint32_t kMaxMessageBytes = 1 << 20;

std::unexpected<Error> system_error(std::string_view what) {
  return fail(ErrorCode::kIoError, "{}: {}", what, std::strerror(errno));
}

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

Status write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("compile for another instruction set: writing");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

/// False at the end of the file.
Result<bool> read_all(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::read(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("compile for another instruction set: reading");
    if (n == 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

/// A status as a message: code (255: none), length, text.
Status write_status(int fd, const Status& status) {
  ByteWriter out;
  out.u8(status ? 255 : static_cast<std::uint8_t>(status.error().code));
  const std::string_view text = status ? "" : std::string_view(status.error().message);
  const auto size =
      static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), kMaxMessageBytes));
  out.u32(size);
  out.text(text.substr(0, size));
  return write_all(fd, out.buffer());
}

Status read_status(int fd) {
  constexpr auto kEnded = "the compile for another instruction set ended without a result";
  std::array<std::byte, 5> head{};
  if (!CTXGEN_TRY(read_all(fd, head))) return fail(ErrorCode::kInternal, kEnded);
  std::uint32_t size = 0;
  std::memcpy(&size, head.data() + 1, sizeof(size));
  if (size > kMaxMessageBytes) return fail(ErrorCode::kInternal, kEnded);
  std::vector<std::byte> text(size);
  if (!CTXGEN_TRY(read_all(fd, text))) return fail(ErrorCode::kInternal, kEnded);
  const auto code = std::to_integer<unsigned>(head[0]);
  if (code == 255) return {};
  if (code > static_cast<unsigned>(ErrorCode::kCancelled))
    return fail(ErrorCode::kInternal, kEnded);
  return std::unexpected(Error{static_cast<ErrorCode>(code), std::string(as_text(text))});
}

/// A file in the temporary folder that is gone once it is no longer open anywhere.
Result<Fd> nameless_file() {
  std::error_code ignored;
  auto folder = std::filesystem::temp_directory_path(ignored);
  if (ignored) folder = "/tmp";
  std::string name = (folder / "ctxgen-XXXXXX").string();
  Fd fd(mkostemp(name.data(), O_CLOEXEC));
  if (fd.get() < 0) return system_error(std::format("temporary file \"{}\"", name));
  unlink(name.c_str());
  return fd;
}

/// All of a nameless file, mapped.
Result<Blob> map_all(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return system_error("answer");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return Blob{};
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return system_error("answer");
  const std::shared_ptr<const void> owner(
      data, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  return Blob{owner, {static_cast<const std::byte*>(data), size}};
}

class SpawnedVariant final : public VariantProcess {
 public:
  SpawnedVariant(pid_t process, Fd request, Fd status, Fd answer)
      : process_(process),
        request_(std::move(request)),
        status_(std::move(status)),
        answer_(std::move(answer)) {}
  ~SpawnedVariant() override {
    request_.close();
    if (!done_) kill(process_, SIGTERM);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  SpawnedVariant(const SpawnedVariant&) = delete;
  SpawnedVariant& operator=(const SpawnedVariant&) = delete;

  [[nodiscard]] Status accepted() { return read_status(status_.get()); }

  Result<Blob> compile(std::span<const std::byte> request) override {
    CTXGEN_CHECK(write_all(request_.get(), request));
    request_.close();
    const Status status = read_status(status_.get());
    done_ = true;
    if (!status) return std::unexpected(status.error());
    return map_all(answer_.get());
  }

 private:
  pid_t process_;
  Fd request_, status_, answer_;
  bool done_ = false;
};

struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

/// The other process's stdin: the model that came from ours, or nothing.
Result<Fd> stdin_for(const std::vector<ModelInput>& inputs) {
  for (const ModelInput& input : inputs) {
    if (!input.path.empty()) continue;
    Fd file = CTXGEN_TRY(nameless_file());
    CTXGEN_CHECK(write_all(file.get(), input.bytes.bytes));
    if (lseek(file.get(), 0, SEEK_SET) != 0) return system_error("temporary file");
    return file;
  }
  Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null.get() < 0) return system_error("/dev/null");
  return null;
}

}  // namespace

Result<std::unique_ptr<VariantProcess>> start_variant(const std::string& isa,
                                                      const std::vector<std::string>& arguments,
                                                      const std::vector<ModelInput>& inputs) {
  signal(SIGPIPE, SIG_IGN);  // a process that has ended shows in what write() says
  Pipe request = CTXGEN_TRY(make_pipe());
  Pipe status = CTXGEN_TRY(make_pipe());
  Fd answer = CTXGEN_TRY(nameless_file());
  Fd input = CTXGEN_TRY(stdin_for(inputs));

  // The ends go to their numbers by way of numbers above all: none may be overwritten on the way.
  const std::array<std::pair<int, int>, 4> ends{{{input.get(), STDIN_FILENO},
                                                 {request.read.get(), kRequestFd},
                                                 {status.write.get(), kStatusFd},
                                                 {answer.get(), kAnswerFd}}};
  constexpr int kAbove = 64;
  std::vector<Fd> parked;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const auto& [from, to] : ends) {
    parked.emplace_back(fcntl(from, F_DUPFD_CLOEXEC, kAbove));
    if (parked.back().get() < 0) {
      posix_spawn_file_actions_destroy(&actions);
      return system_error("fcntl");
    }
    posix_spawn_file_actions_adddup2(&actions, parked.back().get(), to);
  }
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);

  std::vector<std::string> own = arguments;
  own.insert(own.begin() + std::min<std::ptrdiff_t>(2, std::ssize(own)), {"--variant", isa});
  std::vector<char*> argv;
  for (std::string& argument : own) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, program_file().c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    return fail(ErrorCode::kIoError, "starting ctxgen for \"{}\": {}", isa, std::strerror(failed));
  request.read.close();
  status.write.close();
  auto started = std::make_unique<SpawnedVariant>(process, std::move(request.write),
                                                  std::move(status.read), std::move(answer));
  CTXGEN_CHECK(started->accepted());
  return started;
}

Result<int> run_variant(const std::vector<ModelInput>& inputs, const CompileOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  const auto request = [&]() -> Result<Blob> {
    CTXGEN_CHECK(write_status(kStatusFd, {}));
    Blob bytes = CTXGEN_TRY(read_stream(kRequestFd, kMaxRequestBytes));
    if (bytes.bytes.empty()) return fail(ErrorCode::kCancelled, "the parent process exited");
    return bytes;
  };
  const auto answer = [](std::span<const std::byte> bytes) { return write_all(kAnswerFd, bytes); };
  const Status status = serve_variant(inputs, options, request, answer);
  (void)write_status(kStatusFd, status);  // the reader may be gone; then the status does not matter
  return 0;
}

}  // namespace ctxgen::cli
