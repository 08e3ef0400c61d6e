#pragma once
// What an executable has beside the core: `penstock` nothing, `penstock-torch` networks on LibTorch,
// `penstock-cuda` these and the backends of GPUs, `penstock-mpi` processes that share a sweep. Each has every
// subcommand; `penstock` becomes the one that a run needs.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/calibration/profile_options.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/occupy_module.hpp"
#include "cli/process_group.hpp"
#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// What `penstock run` asks of a backend that an extension brings. References are good for the call.
struct BackendCall {
  const Experiment& experiment;
  const PaceOfLinks& pace;
  const RunOptions& options;
  const Jitter& jitter;
};

/// What `penstock selftest` found.
struct SelfTestAnswer {
  std::string text;  ///< for people
  bool all_right = true;
};

struct Extensions {
  /// By the name of --backend: nothing where another process has the result, as measure() returns it.
  std::map<std::string, std::function<tl::expected<std::optional<Result>, RunError>(const BackendCall&)>>
      backends;
  /// Modules for an experiment whose model names a network; empty: this executable has none. Error: what the
  /// network lacks.
  std::function<tl::expected<std::unique_ptr<ModuleFamily>, std::string>(const Experiment&)> network;
  /// The times and bytes of a network's layers on this machine; empty as `network` is.
  std::function<tl::expected<LayerGraph, std::string>(const NetworkSpec&, const ProfileOptions&)> profile;
  /// Checks this machine's GPUs; empty: this executable knows of none.
  std::function<tl::expected<SelfTestAnswer, RunError>()> selftest{};
  /// Joins the processes that a launcher started with this one; empty: this executable cannot.
  std::function<ProcessGroup()> processes{};
};

/// How the program was called.
struct Invocation {
  std::vector<std::string> arguments;  ///< argv
  Extensions extensions;
};

}  // namespace penstock
