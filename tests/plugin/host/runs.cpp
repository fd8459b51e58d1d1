// Runs of a session: their outputs, options that change while it lives, profiles, threads, time and memory.

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "host.h"

namespace ort_host {
namespace {

/// Two threads run the session at the same time.
int profile(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session), others(session);
  std::thread other([&] { others.run(session); });
  arguments.run(session);
  other.join();
  Ort::AllocatorWithDefaultOptions allocator;
  std::cout << session.EndProfilingAllocated(allocator).get() << "\n";
  return 0;
}

int set_dynamic(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : options.config) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  Ort::ThrowOnError(
      Ort::GetApi().SetEpDynamicOptions(session, keys.data(), values.data(), keys.size()));
  Arguments(session).run(session);
  return 0;
}

/// ONNX Runtime itself looks at the flag between nodes. So many runs are stopped, a little later
/// each time, until one says that it was stopped inside a node. After that the session has to run
/// as before.
int terminate_run(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session);
  arguments.run(session);
  const auto start = std::chrono::steady_clock::now();
  arguments.run(session);
  const auto whole = std::chrono::steady_clock::now() - start;
  std::map<std::string, int> seen;
  for (int attempt = 0; attempt < 200; ++attempt) {
    Ort::RunOptions run_options;
    std::atomic<bool> begun = false;
    std::thread stopper([&] {
      while (!begun) std::this_thread::yield();
      std::this_thread::sleep_for(whole * (attempt % 10 + 1) / 20);
      run_options.SetTerminate();
    });
    std::string text = "finished";
    begun = true;
    try {
      arguments.run(session, run_options);
    } catch (const Ort::Exception& error) {
      text = error.what();
    }
    stopper.join();
    if (text.find("the run was stopped") != std::string::npos) {
      arguments.run(session);
      std::cout << "stopped inside a node\n";
      return 0;
    }
    ++seen[text];
  }
  for (const auto& [text, times] : seen) std::cout << times << " times: " << text << "\n";
  return 2;
}

int write_outputs(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  std::ofstream(options.outputs, std::ios::binary)
      << bytes_of(Arguments(session, options.fill).run(session));
  return 0;
}

/// --count threads run one session, or one each, --rounds times; every answer has the bytes of the first one.
int run_in_threads(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session, options.fill);
  const std::string expected = bytes_of(arguments.run(session));
  std::atomic<int> others = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < options.count; ++t)
    threads.emplace_back([&] {
      std::optional<Ort::Session> apart;
      if (options.apart) apart = make_session(env, options);
      Ort::Session& used = apart ? *apart : session;
      const Arguments own(used, options.fill);
      for (int i = 0; i < options.rounds; ++i)
        if (bytes_of(own.run(used)) != expected) ++others;
    });
  for (std::thread& thread : threads) thread.join();
  std::cout << others << " of " << options.count * options.rounds << " answers differ\n";
  return others == 0 ? 0 : 2;
}

/// Inputs and outputs in memory of this program: ONNX Runtime gives the same memory back, with the answer in it.
int run_bound(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session, options.fill);
  const std::vector<Ort::Value> expected = arguments.run(session);
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  std::vector<std::vector<std::byte>> buffers;
  Ort::IoBinding binding(session);
  for (std::size_t i = 0; i < arguments.input_count; ++i)
    binding.BindInput(arguments.pointers[i], arguments.inputs[i]);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto info = expected[i].GetTensorTypeAndShapeInfo();
    const std::vector<std::int64_t> shape = info.GetShape();
    buffers.emplace_back(expected[i].GetTensorSizeInBytes());
    binding.BindOutput(arguments.pointers[arguments.input_count + i],
                       Ort::Value::CreateTensor(memory, buffers[i].data(), buffers[i].size(),
                                                shape.data(), shape.size(), info.GetElementType()));
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (auto& buffer : buffers) std::ranges::fill(buffer, std::byte{0xFF});
    session.Run(Ort::RunOptions(), binding);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (std::memcmp(buffers[i].data(), expected[i].GetTensorRawData(), buffers[i].size()) != 0)
        throw Failed("the answer is not in the bound memory");
  }
  return 0;
}

/// Memory that only this process has, in bytes: the sum of the lines of /proc/self/smaps_rollup that begin so.
std::uint64_t private_bytes(std::string_view beginning = "Private_") {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::uint64_t kilobytes = 0, number = 0;
  for (std::string line; std::getline(rollup, line);)
    if (line.starts_with(beginning) && std::sscanf(line.c_str(), "%*s %lu", &number) == 1)
      kilobytes += number;
  return kilobytes * 1024;
}

/// What each of --count sessions after the first one takes for itself, before and after it has run. Clean pages of
/// files are left out: Linux counts those as shared as soon as two sessions of this process map them.
int print_session_bytes(const Options& options) {
  Ort::Env env = make_env(options);
  std::vector<std::unique_ptr<Ort::Session>> sessions;
  const auto make = [&] {
    sessions.push_back(std::make_unique<Ort::Session>(make_session(env, options)));
    return sessions.back().get();
  };
  Ort::Session* first = make();
  const Arguments arguments(*first, options.fill);
  arguments.run(*first);
  const auto own_bytes = [] { return private_bytes("Private_Dirty:"); };
  const std::uint64_t before = own_bytes();
  for (int i = 0; i < options.count; ++i) make();
  const std::uint64_t made = own_bytes();
  for (const auto& session : sessions) arguments.run(*session);
  const auto share = [&](std::uint64_t bytes) {
    return (static_cast<double>(bytes) - static_cast<double>(before)) / 1024 / options.count;
  };
  std::cout << "{\"kib_each\": " << share(made)
            << ", \"kib_each_after_a_run\": " << share(own_bytes()) << "}\n";
  return 0;
}

/// How long one session takes to be made and to run, and the memory that only this process has then and after runs: all of it,
/// and without the pages of files.
int print_creation(const Options& options) {
  Ort::Env env = make_env(options);
  const std::uint64_t before = private_bytes(), anonymous_before = private_bytes("Anonymous:");
  const auto start = std::chrono::steady_clock::now();
  Ort::Session session = make_session(env, options);
  const std::chrono::duration<double, std::milli> made = std::chrono::steady_clock::now() - start;
  const std::uint64_t after = private_bytes();
  const Arguments arguments(session, options.fill);
  double least = 0;
  for (int i = 0; i < options.rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    arguments.run(session);
    const std::chrono::duration<double, std::milli> run = std::chrono::steady_clock::now() - begin;
    least = i == 0 ? run.count() : std::min(least, run.count());
  }
  constexpr double kMiB = 1 << 20;
  const auto mib = [](std::uint64_t bytes, std::uint64_t bytes_before) {
    return (static_cast<double>(bytes) - static_cast<double>(bytes_before)) / kMiB;
  };
  std::cout << "{\"create_ms\": " << made.count() << ", \"run_ms\": " << least
            << ", \"private_mib\": " << mib(after, before)
            << ", \"private_mib_after_runs\": " << mib(private_bytes(), before)
            << ", \"anonymous_mib_after_runs\": "
            << mib(private_bytes("Anonymous:"), anonymous_before) << "}\n";
  return 0;
}

/// --count sessions run --rounds times at the same time: percentiles of one run, in microseconds.
int print_latency(const Options& options) {
  Ort::Env env = make_env(options);
  std::vector<std::unique_ptr<Ort::Session>> sessions;
  std::vector<std::vector<double>> times(static_cast<std::size_t>(options.count));
  for (int i = 0; i < options.count; ++i)
    sessions.push_back(std::make_unique<Ort::Session>(make_session(env, options)));
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < sessions.size(); ++s)
    threads.emplace_back([&, s] {
      const Arguments arguments(*sessions[s], options.fill);
      for (int i = 0; i < 3; ++i) arguments.run(*sessions[s]);
      for (int i = 0; i < options.rounds; ++i) {
        const auto start = std::chrono::steady_clock::now();
        arguments.run(*sessions[s]);
        const std::chrono::duration<double, std::micro> spent =
            std::chrono::steady_clock::now() - start;
        times[s].push_back(spent.count());
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& some : times) all.insert(all.end(), some.begin(), some.end());
  std::ranges::sort(all);
  const auto percentile = [&](std::size_t p) { return all[(all.size() - 1) * p / 100]; };
  std::cout << "{\"min_us\": " << all.front() << ", \"p50_us\": " << percentile(50)
            << ", \"p99_us\": " << percentile(99) << "}\n";
  return 0;
}

}  // namespace

Verb find_run_verb(std::string_view name) {
  static const std::map<std::string_view, Verb> verbs = {
      {"dynamic", set_dynamic},          {"profile", profile},        {"terminate", terminate_run},
      {"outputs", write_outputs},        {"threads", run_in_threads}, {"bound", run_bound},
      {"sessions", print_session_bytes}, {"latency", print_latency},  {"creation", print_creation}};
  const auto found = verbs.find(name);
  return found == verbs.end() ? nullptr : found->second;
}

}  // namespace ort_host
