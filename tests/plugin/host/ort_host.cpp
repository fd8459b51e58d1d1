// An application on ONNX Runtime for the tests of the plugin: does one thing with one library, both
// named by path, in a process of its own. It is built with the headers of 1.23 and serves every
// later library. `ort_host --help` lists what it does.
//
// Status 0: done. 1: ONNX Runtime refused, "CODE: TEXT" on stdout. 2: this program was not used
// right, or what it wanted to see did not happen. 3: the library is too old for it.

#include <iostream>

#include "host.h"

namespace ort_host {
namespace {

constexpr const char* kUsage =
    "usage: ort_host VERB --library FILE --plugin FILE [--model FILE] [options]\n"
    "  run             load the model and run it; --rounds N: register, load, run, unregister N "
    "times\n"
    "  keep            the same, and leave without unregistering, everything destroyed in order\n"
    "  leak            the same, and exit with nothing destroyed\n"
    "  static          the same, with environment and session destroyed after main\n"
    "  early           unregister while a session lives, run it again, then destroy it\n"
    "  orphan          destroy the environment, then run the session\n"
    "  mapped          run, unregister, and print which libraries stay mapped\n"
    "  load            make a session only\n"
    "  compile         CompileModel to --output\n"
    "  compile-group   CompileModel of --model and --second into one context\n"
    "  run-group       load both with ep.share_ep_contexts, write --outputs and --outputs.second\n"
    "  data            run a model whose context a function gives from the folder --data (1.28)\n"
    "  package         run component --info of the model package --model (1.28)\n"
    "  fingerprint     what the model's metadata says for the plugin (1.24)\n"
    "  assignment      EP, operator and name of each node (1.24)\n"
    "  memory          where inputs and outputs are\n"
    "  verdict         GetModelCompatibilityForEpDevices of --info\n"
    "  incompatibility GetHardwareDeviceEpIncompatibilityDetails of every device and of a made-up GPU "
    "(1.24)\n"
    "  dynamic         SetEpDynamicOptions with the --config entries\n"
    "  profile         run the model and print the file of the profile\n"
    "  terminate       stop a run that is under way from another thread\n"
    "  outputs         write the bytes of a run's outputs to --outputs\n"
    "  threads         --count threads run one session, or with --apart one each, --rounds times\n"
    "  bound           run with inputs and outputs in memory of this program\n"
    "  sessions        private memory of each of --count sessions\n"
    "  creation        time and private memory of a session, and of --rounds runs\n"
    "  latency         percentiles of runs of --count sessions at the same time\n"
    "options:\n"
    "  --output PATH   of compile, and where the file of profile's name begins\n"
    "  --threads N     for the session and the EP; default: what they take by themselves\n"
    "  --memory        give the session the model's bytes\n"
    "  --embed         of compile: the context lies in the model\n"
    "  --flags N       of compile: OrtCompileApiFlags\n"
    "  --stream WORD   of compile: \"writes\" the output through a function, one that \"fails\", or to a \"buffer\"\n"
    "  --weights FILE  of compile: where a function places initializers\n"
    "  --reuse         of compile: a function leaves initializers in the source's files\n"
    "  --data FOLDER   of compile: where a function keeps the context (1.28)\n"
    "  --source FILE   gives its bytes as the source of a weightless model (1.29)\n"
    "  --plain         without the plugin\n"
    "  --policy WORD   how ONNX Runtime chooses: cpu, performance, or a function that \"takes\" the plugin, takes "
    "\"nothing\" or \"fails\"\n"
    "  --optimization N, --optimized FILE   level, and where the optimised model goes\n"
    "  --log N         severity from which on messages are printed\n"
    "  --fill N        of all inputs that are not floats\n"
    "  --config K=V    a session configuration entry; repeatable\n"
    "  --ep K=V        an option of the EP; repeatable\n"
    "  --file N=FILE   gives the bytes of FILE as the model's file of external data N; repeatable\n"
    "  --ep-name NAME  of the plugin (default CtxgenDnnlExecutionProvider)\n";

int dispatch(const Options& options) {
  open_library(options.library);
  for (const auto find : {find_living_verb, find_compile_verb, find_query_verb, find_run_verb})
    if (const Verb verb = find(options.verb)) return verb(options);
  throw Failed(kUsage);
}

}  // namespace
}  // namespace ort_host

int main(int argc, char** argv) {
  try {
    return ort_host::dispatch(ort_host::parse(argc, argv, ort_host::kUsage));
  } catch (const Ort::Exception& error) {
    std::cout << error.GetOrtErrorCode() << ": " << error.what() << std::endl;
    return 1;
  } catch (const ort_host::TooOld& error) {
    std::cout << error.what() << std::endl;
    return 3;
  } catch (const std::exception& error) {
    std::cerr << "ort_host: " << error.what() << std::endl;
    return 2;
  }
}
