#pragma once
// From a Scenario to what an engine takes: the lowered, validated program with its costs on a cluster.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A network cut into the program's stages.
struct StagedNetwork {
  NetworkSpec spec;
  /// By stage the names of its layers; empty where the model is not given as layers: as even as can be.
  std::vector<std::vector<std::string>> layers;
  Optimizer optimizer = Optimizer::sgd;
};

/// What is trained by all copies of a pipeline on named devices.
struct TrainedModel {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;
  double flops_per_sample = 0;  ///< of the model: nothing computed twice
  std::int64_t tokens_per_sample = 1;
  std::int64_t devices = 1;          ///< that all copies occupy
  std::int32_t copies = 1;           ///< of the pipeline, of which the program is one
  double peak_flops_per_second = 0;  ///< of a device at the training's precision

  friend bool operator==(const TrainedModel&, const TrainedModel&) = default;
};

/// Everything that an engine needs; sim/ and backend/ take the same value.
struct Experiment {
  std::string name;  ///< the scenario's file, or the schedule's name
  Program program;   ///< validated and lowered
  CostTable costs;   ///< one entry a stage and edge of the program
  Cluster cluster;   ///< device r runs rank r
  ChannelOptions channels;
  double samples_per_microbatch = 1;  ///< in all copies of the pipeline
  std::vector<std::string> notes;
  std::optional<double> price_per_device_hour{};
  bool counts_activations = false;         ///< no model is given: an activation is one "byte" of its costs
  std::optional<TrainedModel> trained{};   ///< where a model is priced on named devices
  std::optional<StagedNetwork> network{};  ///< absent: the model is times and bytes alone
};

/// Why an experiment could not be prepared. `invalid` (exit 1): parsed but not a legal program;
/// otherwise bad input (exit 2): an impossible shape, sizes that do not divide, too few devices, ...
struct PrepareError {
  std::string message;
  bool invalid = false;
};

/// Generates, validates, partitions, prices and lowers. Pure: equal scenarios give equal experiments.
tl::expected<Experiment, PrepareError> prepare(const Scenario& scenario);

/// prepare() without the checks and the lowering of what a schedule's rule has generated, which is trusted to
/// be valid: the program has compute actions alone. Programs from files, and those whose model states its
/// edges, are validated and lowered all the same.
tl::expected<Experiment, PrepareError> prepare_as_generated(const Scenario& scenario);

/// The costs of `scenario` for a program that was prepared from one that differs in its cuts alone. Requires
/// layers, and in each stage as many buckets as there. Errors: those of cut_model() and cost_table().
tl::expected<CostTable, std::string> costs_of_cut(const Scenario& scenario, const Program& program);

/// An experiment whose lists are loops, for programs that are too long to be stored.
struct RolledExperiment {
  Experiment experiment;           ///< its program has empty lists
  std::vector<ActionLoops> lists;  ///< by rank: compute actions and collectives, not lowered
};

/// prepare() without the checks and the lowering of a stored program: rules are trusted to declare valid
/// loops. Error: as above; a program file, a schedule that weighs costs, stages in buckets, stage edges of
/// the model.
tl::expected<RolledExperiment, PrepareError> prepare_rolled(const Scenario& scenario);

/// About how many compute actions a scenario's schedule has. 0 where it is not a schedule by name, or where
/// prepare() refuses its numbers.
double compute_actions(const Scenario& scenario);

}  // namespace penstock
