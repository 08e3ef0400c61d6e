#pragma once
// From a Scenario to what an engine takes: the lowered, validated program with its costs on a cluster.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/prepare_error.hpp"
#include "scenarios/prepare/trained_model.hpp"
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
  bool counts_activations = false;         ///< no model is given: "bytes" of its costs are kActivationParts
  std::int32_t pipeline_size = 0;          ///< K that the schedule was asked for; 0: a program file's
  std::optional<TrainedModel> trained{};   ///< where a model is priced on named devices
  std::optional<StagedNetwork> network{};  ///< absent: the model is times and bytes alone
};

/// Generates, validates, partitions, prices and lowers. Pure: equal scenarios give equal experiments.
tl::expected<Experiment, PrepareError> prepare(const Scenario& scenario);

/// prepare() without the checks and the lowering of what a schedule's rule has generated, which is trusted to
/// be valid: the program has compute actions alone. Programs from files, and those whose model states its
/// edges, are validated and lowered all the same.
tl::expected<Experiment, PrepareError> prepare_as_generated(const Scenario& scenario);

/// An experiment whose lists are loops, for programs that are too long to be stored.
struct RolledExperiment {
  Experiment experiment;           ///< its program has empty lists
  std::vector<ActionLoops> lists;  ///< by rank: compute actions and collectives, not lowered
};

/// prepare() without the checks and the lowering of a stored program: rules are trusted to declare valid
/// loops. Error: as above; a program file, a schedule that weighs costs, stages in buckets, stage edges of
/// the model.
tl::expected<RolledExperiment, PrepareError> prepare_rolled(const Scenario& scenario);

/// Returns about how many compute actions a scenario has: of one copy of the pipeline, where copies are alike
/// and one of them is prepared. 0 where prepare() refuses its numbers, or does not know the schedule.
double compute_actions(const Scenario& scenario);

/// Returns true where prepare_rolled() may be asked: false for a program file, and for a model that is priced
/// by one of its copies, whose runs are stored.
bool may_be_rolled(const Scenario& scenario);

}  // namespace penstock
