#pragma once
// The parts that an executable has in addition to the core (extensions). `penstock` has none.
// `penstock-torch` has networks on LibTorch. `penstock-cuda` also has the GPU backends. All executables
// have the same subcommands. If a run needs another executable, `penstock` replaces itself by it.

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

/// The arguments of `penstock run` for the backend of an extension. The references are valid only during the
/// call.
struct BackendCall {
  const Experiment& experiment;
  const PaceOfLinks& pace;
  const RunOptions& options;
  const Jitter& jitter;
};

/// The result of `penstock selftest`.
struct SelfTestAnswer {
  std::string text;  ///< The text for the terminal.
  bool all_right = true;
};

struct Extensions {
  /// The functions that run an experiment on a backend, by the backend's name for --backend. Such a
  /// function returns nothing if another process has the result, as measure() does.
  std::map<std::string, std::function<tl::expected<std::optional<Result>, UserError>(const BackendCall&)>>
      backends;
  /// The function that makes modules for an experiment with a network. It is empty if this executable has no
  /// networks. It returns an error if the network does not fit the experiment.
  std::function<tl::expected<std::unique_ptr<ModuleFamily>, std::string>(const Experiment&)> network;
  /// The function that measures the times and bytes of a network's layers on this machine. It is empty if
  /// this executable has no networks.
  std::function<tl::expected<LayerGraph, std::string>(const NetworkSpec&, const ProfileOptions&)> profile;
  /// The function that checks this machine's GPUs. It is empty if this executable has no GPU code.
  std::function<tl::expected<SelfTestAnswer, UserError>()> selftest{};
};

/// The arguments and the extensions of the running program.
struct Invocation {
  std::vector<std::string> arguments;  ///< The elements of argv.
  Extensions extensions;
};

}  // namespace penstock
