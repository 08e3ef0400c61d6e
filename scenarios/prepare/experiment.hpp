#pragma once
// From a Scenario to what an engine takes: its program with its costs on a cluster.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

struct OneCopy;

/// A network cut into the program's stages.
struct StagedNetwork {
  NetworkSpec spec;
  /// By stage the names of its layers; empty where the model is not given as layers: as even as can be.
  std::vector<std::vector<std::string>> layers;
  Optimizer optimizer = Optimizer::sgd;
};

/// The form in which an experiment has its program.
enum class ProgramForm : std::uint8_t {
  lowered,  // lists, checked, with their SENDs and RECVs: what backends, checks and stored runs take
  lists,  // the compute lists that the schedule's rule gives, which is trusted to be valid; program files and
          // programs with edges of the model are lowered all the same
  loops,  // the same lists as loops, in a size that does not grow with M; lists where why_no_loops() says so
};

/// Everything that an engine needs; sim/ and backend/ take the same value.
struct Experiment {
  std::string name;  ///< the scenario's file, or the schedule's name
  Program program;   ///< in one of the forms above
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

  // Set where a scenario was prepared, and used by predictions alone.
  /// The lists of the program as loops, by rank; the program's own lists are then empty. Empty: it has its
  /// lists.
  std::vector<ActionLoops> loops{};
  std::string
      why_lists{};  ///< the reason for which there can be no loops; empty: there can, or it was lowered
  double compute_actions = 0;  ///< about how many the run has; 0: not counted
  /// The copy of the pipeline that was prepared, from which with_microbatches() starts; null: made by hand.
  std::shared_ptr<const OneCopy> source{};
};

/// The first step of preparation: the copy of the pipeline that is prepared, and its batch. It says how long
/// the run is before any list is made.
struct Preparation {
  std::shared_ptr<const OneCopy> copy;
  ScheduleInForce in_force;  ///< its program file, where there is one, is the copy's
  double compute_actions =
      0;  ///< about how many; of the one copy that is prepared. 0: the schedule is not known
};

/// Takes the first step. Error: as prepare().
tl::expected<Preparation, UserError> begin_preparation(const Scenario& scenario);

/// Takes all further steps: generates, partitions, prices and, where the form asks for it, validates and
/// lowers. Pure: equal scenarios give equal experiments. Error: input that makes no experiment, an invalid
/// program.
tl::expected<Experiment, UserError> prepare(const Preparation& begun, ProgramForm form);

/// Takes all steps.
tl::expected<Experiment, UserError> prepare(const Scenario& scenario,
                                            ProgramForm form = ProgramForm::lowered);

/// Returns how often prepare() or begin_preparation() has been asked for a Scenario by this thread. Tests
/// hold every prediction to one.
std::int64_t preparations_so_far();

/// Returns the reason for which a program cannot be prepared as loops; empty where it can.
std::string why_no_loops(const Preparation& begun);

/// Returns the experiment of the same scenario with one iteration of another number of microbatches, each of
/// as many samples. Error: as prepare(); an experiment that was made by hand.
tl::expected<Experiment, UserError> with_microbatches(const Experiment& experiment, std::int64_t microbatches,
                                                      ProgramForm form);

/// Returns the experiment with its program's lists spelled out from their loops.
Experiment with_lists(Experiment experiment);

/// Returns the experiment with its program validated and lowered. Error: an invalid program.
tl::expected<Experiment, UserError> lowered(Experiment experiment);

/// Returns about how many compute actions a scenario has: of one copy of the pipeline, where copies are alike
/// and one of them is prepared. 0 where prepare() refuses its numbers, or does not know the schedule.
double compute_actions(const Scenario& scenario);

// The names of the devices on which the ranks of an experiment run.

/// Returns the name of each rank's device. A name is empty if the cluster has no such device.
std::vector<std::string> rank_devices(const Experiment& experiment);

// Finds the smallest shape with which a generated schedule hangs, for `penstock check --shrink`.

/// An experiment and the shape from which its program was generated.
struct ShapedExperiment {
  Experiment experiment;
  Shape shape;  ///< with the microbatches of the experiment's program
};

/// Returns the first smaller experiment that hangs under the scenario's channels, or `hanging` if there is
/// none. It tries all K, v and M in ascending order, and K changes slowest. It skips shapes that the schedule
/// refuses, and gives up after several million actions. Requires a scenario without `program`, and
/// prepare(scenario) == `hanging`.
ShapedExperiment smallest_hanging_shape(const Scenario& scenario, Experiment hanging);

}  // namespace penstock
