#pragma once
// Prepares a Scenario for an engine. The result is a program with its costs on a cluster.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/prepare/model_stages.hpp"
#include "scenarios/prepare/prepared_program.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

struct OneCopy;

/// The PyTorch network of an executed run, cut into the stages of the program.
struct StagedNetwork {
  NetworkSpec spec;
  /// The names of the layers of each stage. If the model is not stated as layers, the list is empty, and the
  /// network is cut as evenly as possible.
  std::vector<std::vector<std::string>> layers;
  Optimizer optimizer = Optimizer::sgd;
};

/// The form in which prepare() makes the program of an experiment.
enum class ProgramForm : std::uint8_t {
  // Validated lists with SENDs and RECVs. Backends, checks and stored runs need this form.
  lowered,
  // The compute lists of the schedule's rule, without validation. Program files and programs of models with
  // stated edges are validated and lowered in this form, too.
  lists,
  // The compute lists, written as loops. Their size does not grow with M. If why_no_loops() returns a reason,
  // the program has lists instead.
  loops,
};

/// A scenario that is ready for an engine. All engines of sim/ and backend/ take this type.
struct Experiment {
  std::string name;  ///< the scenario's file, or the schedule's name
  Program program;   ///< the program, in one of the forms of ProgramForm
  CostTable costs;   ///< the costs of each stage and each edge of the program
  Cluster cluster;   ///< the cluster, on which device r runs rank r
  ChannelOptions channels;
  double samples_per_microbatch = 1;  ///< the samples of a microbatch in all copies of the pipeline together
  /// The number of copies of the pipeline, of which `program` is one. 1 if `program` has all copies.
  std::int32_t copies = 1;
  std::vector<std::string> notes;
  std::optional<double> price_per_device_hour{};
  /// True if the scenario states no model. Memory is then counted in activations: one activation has
  /// kActivationParts "bytes".
  bool counts_activations = false;
  std::int32_t pipeline_size = 0;          ///< the stated K of the schedule, or 0 for a program file
  std::optional<TrainedModel> trained{};   ///< present if the model is on named devices
  std::int64_t prompt_tokens = 0;          ///< the tokens of a prompt, if the model states its chunks
  std::optional<StagedNetwork> network{};  ///< absent if the scenario describes only times and bytes

  // prepare() sets the following fields, and only predictions use them.
  /// The lists of actions of all ranks, written as loops. If it is not empty, the lists of `program` are
  /// empty.
  std::vector<ActionLoops> loops{};
  /// The reason why the program is not written as loops. It is empty if loops are possible, or if the
  /// caller did not ask for loops.
  std::string why_lists{};
  double compute_actions = 0;  ///< the approximate number of compute actions; 0 if they were not counted
  /// The prepared data of one pipeline copy, from which with_microbatches() starts. Null if the experiment
  /// was not prepared from a scenario.
  std::shared_ptr<const OneCopy> source{};
};

/// The result of the first step of preparation: one copy of the pipeline with its schedule and batch. It
/// has the number of compute actions before any list of actions is generated.
struct Preparation {
  std::shared_ptr<const OneCopy> copy;
  /// The schedule and the batch of the run. If the scenario names a program file, the program belongs to
  /// `copy`.
  ScheduleInForce in_force;
  /// The approximate number of compute actions of the pipeline copy `copy`. It is 0 if the schedule is not
  /// known.
  double compute_actions = 0;
};

/// Runs the first step of preparation. Returns those errors of prepare() that this step finds.
tl::expected<Preparation, UserError> begin_preparation(const Scenario& scenario);

/// Runs all steps of preparation after the first one. They generate the program, cut the model, and compute
/// the costs. If `form` requires it, they also validate and lower the program. Equal scenarios give equal
/// experiments. Fails if the input is wrong or the program is invalid.
tl::expected<Experiment, UserError> prepare(const Preparation& begun, ProgramForm form);

/// Prepares an experiment from a scenario, in all steps.
tl::expected<Experiment, UserError> prepare(const Scenario& scenario,
                                            ProgramForm form = ProgramForm::lowered);

/// Returns the number of scenarios that this thread has begun to prepare. Tests use it to check that a
/// prediction prepares its scenario only once.
std::int64_t preparations_so_far();

/// Returns the reason why a program cannot be prepared as loops, or an empty text if it can.
std::string why_no_loops(const Preparation& begun);

/// Prepares the scenario of `experiment` again, with one iteration and another number of microbatches. The
/// size of a microbatch does not change. Fails if prepare() fails, or if the experiment has no `source`.
tl::expected<Experiment, UserError> with_microbatches(const Experiment& experiment, std::int64_t microbatches,
                                                      ProgramForm form);

/// Returns the experiment with its loops replaced by lists. An experiment without loops is returned
/// unchanged.
Experiment with_lists(Experiment experiment);

/// Returns the experiment with its program validated and lowered. Fails if the program is invalid.
tl::expected<Experiment, UserError> lowered(Experiment experiment);

/// Returns the approximate number of compute actions of a scenario. If preparation uses only one copy of the
/// pipeline, only this copy is counted. Returns 0 if the batch or the schedule is not valid.
double compute_actions(const Scenario& scenario);

/// Returns the name of each rank's device. A name is empty if the cluster has no such device.
std::vector<std::string> rank_devices(const Experiment& experiment);

/// An experiment and the shape from which its program was generated.
struct ShapedExperiment {
  Experiment experiment;
  Shape shape;  ///< the shape; its `microbatches` is the number of the experiment's program
};

/// Returns the first experiment with a smaller shape that hangs under the scenario's channels, or `hanging`
/// if none is found. `penstock check --shrink` uses it. The search tries all K, v and M in ascending order,
/// with K in the outer loop. It skips shapes that the schedule refuses, and stops after 5 million actions.
/// Requires a scenario without `program`, and prepare(scenario) == `hanging`.
ShapedExperiment smallest_hanging_shape(const Scenario& scenario, Experiment hanging);

// The last step of preparation. It adds costs, cluster and notes to a program. experiment.cpp uses it.

// --- experiment notes ------------------------------------------------------------------------------------

/// Returns a note about the number of chunks on each rank, for a schedule that has several chunks by
/// default. If the scenario states no number, the note names the default. If it states 1, the note says
/// that nothing is interleaved. Returns nothing if the scenario states several chunks, for other schedules,
/// and for program files.
std::optional<std::string> chunks_note(const Scenario& scenario);

/// The inputs from which experiment_notes() makes the notes of a run.
struct NotesTerms {
  const std::vector<std::string>& of_scenario;
  const std::vector<std::string>& of_schedule;
  const Model& model;
  Scaling samples;
  std::int32_t microbatches = 1;
  std::int32_t slices = 1;
  std::optional<std::string> of_chunks{};  ///< the result of chunks_note()
};

/// Returns all notes of a run. First come the notes of the scenario, and notes on lists that lack entries for
/// some of the M microbatches. Then come the note on chunks and the notes of the schedule. The last one is
/// about figures that were scaled to another microbatch size.
std::vector<std::string> experiment_notes(const NotesTerms& terms);

// --- priced experiment -----------------------------------------------------------------------------------

/// Returns the experiment that consists of `program` and its costs. Requires that `program` was generated
/// from `resolved`. Fails if program_prices() fails.
tl::expected<Experiment, std::string> priced_experiment(const SettledScenario& settled,
                                                        const ResolvedScenario& resolved, Program program);

}  // namespace penstock
