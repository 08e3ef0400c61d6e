#pragma once
// What an executable has beside the core: `penstock` nothing, `penstock-torch` networks on LibTorch,
// `penstock-cuda` these and the backends of GPUs. Each has every subcommand; `penstock` becomes the one that
// a run needs.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/calibration/calibration_samples.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"

namespace penstock {

/// The arguments of `penstock run` for a backend of an extension. The references are valid during the call.
struct BackendCall {
  const Experiment& experiment;
  const PaceOfLinks& pace;
  const RunOptions& options;
  const Jitter& jitter;
};

/// The result of `penstock selftest`.
struct SelfTestAnswer {
  std::string text;  ///< text for the terminal
  bool all_right = true;
};

struct Extensions {
  /// Backends by the name for --backend. They return nothing if another process has the result, like
  /// measure().
  std::map<std::string, std::function<tl::expected<std::optional<Result>, UserError>(const BackendCall&)>>
      backends;
  /// Makes modules for an experiment whose model names a network; empty if this executable has no networks.
  /// Error: what the network lacks.
  std::function<tl::expected<std::unique_ptr<ModuleFamily>, std::string>(const Experiment&)> network;
  /// Measures the times and bytes of a network's layers on this machine; empty like `network`.
  std::function<tl::expected<LayerGraph, std::string>(const NetworkSpec&, const ProfileOptions&)> profile;
  /// Checks this machine's GPUs; empty if this executable has no GPU code.
  std::function<tl::expected<SelfTestAnswer, UserError>()> selftest{};
};

/// The arguments and the extensions of the running program.
struct Invocation {
  std::vector<std::string> arguments;  ///< argv
  Extensions extensions;
};

}  // namespace penstock
