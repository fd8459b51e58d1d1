#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/runtime/session.h"

namespace ctxgen::cli {

/// Runs of a session one after the other. Where it has pairs of states, each continues the one before, the
/// first from an empty state.
///
/// Lifetime  borrows the session.
class RunSequence {
 public:
  [[nodiscard]] static Result<RunSequence> start(const Session& session);

  /// Inputs that the state gives; none without one.
  [[nodiscard]] std::vector<std::string> kept_inputs() const;
  /// The outputs, those that the state keeps too. Inputs that it gives are passed over in `inputs` if they
  /// come from test data, which have the whole run (`pass_over`); otherwise they are an error.
  /// Errors  as of a run; INVALID_ARGUMENT: an input that the state gives.
  /// `observer`: may be nullptr, and has to be with pairs of states.
  [[nodiscard]] Result<std::vector<RuntimeValue>> run(std::span<const NamedValue> inputs,
                                                      bool pass_over,
                                                      std::vector<OpTiming>* timings,
                                                      const ValueObserver* observer = nullptr);

 private:
  explicit RunSequence(const Session& session) : session_(&session) {}

  const Session* session_;
  std::unique_ptr<ModelState> state_;
  std::unique_ptr<RunContext> context_;
};

}  // namespace ctxgen::cli
