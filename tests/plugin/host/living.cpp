// Registering, loading and ending, in every order that an application may choose.

#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "host.h"

namespace ort_host {
namespace {

void load_and_run(Ort::Env& env, const Options& options) {
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session);
  for (int i = 0; i < 3; ++i) arguments.run(session);
}

int run(const Options& options) {
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "ort_host");
  for (int round = 0; round < options.rounds; ++round) {
    env.RegisterExecutionProviderLibrary(kRegistration, options.plugin);
    load_and_run(env, options);
    env.UnregisterExecutionProviderLibrary(kRegistration);
  }
  return 0;
}

int keep(const Options& options) {
  Ort::Env env = make_env(options);
  load_and_run(env, options);
  return 0;
}

int leak(const Options& options) {
  auto* env = new Ort::Env(make_env(options));
  auto* session = new Ort::Session(make_session(*env, options));
  Arguments(*session).run(*session);
  return 0;
}

int destroy_after_main(const Options& options) {
  static std::optional<Ort::Env> env;
  static std::optional<Ort::Session> session;
  env = make_env(options);
  session = make_session(*env, options);
  Arguments(*session).run(*session);
  return 0;
}

int unregister_early(const Options& options) {
  Ort::Env env = make_env(options);
  Ort::Session session = make_session(env, options);
  const Arguments arguments(session);
  arguments.run(session);
  try {
    env.UnregisterExecutionProviderLibrary(kRegistration);
  } catch (const Ort::Exception& error) {  // a release may refuse that
    std::cout << "unregister: " << error.what() << "\n";
  }
  arguments.run(session);
  return 0;
}

int run_orphan(const Options& options) {
  auto env = std::make_unique<Ort::Env>(make_env(options));
  Ort::Session session = make_session(*env, options);
  const Arguments arguments(session);
  arguments.run(session);
  env.reset();
  arguments.run(session);
  return 0;
}

int print_mapped(const Options& options) {
  run(options);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    for (const char* name : {"libctxgen_onnxruntime.so", "libgomp.so", "libdnnl.so"})
      if (line.find(name) != std::string::npos && line.find("r-xp") != std::string::npos)
        std::cout << name << "\n";
  return 0;
}

int load(const Options& options) {
  Ort::Env env = make_env(options);
  const Ort::Session session = make_session(env, options);
  std::cout << session.GetInputCount() << " inputs\n";
  return 0;
}

}  // namespace

Verb find_living_verb(std::string_view name) {
  static const std::map<std::string_view, Verb> verbs = {{"run", run},
                                                         {"keep", keep},
                                                         {"leak", leak},
                                                         {"static", destroy_after_main},
                                                         {"orphan", run_orphan},
                                                         {"early", unregister_early},
                                                         {"mapped", print_mapped},
                                                         {"load", load}};
  const auto found = verbs.find(name);
  return found == verbs.end() ? nullptr : found->second;
}

}  // namespace ort_host
