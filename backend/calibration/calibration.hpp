#pragma once
// Measures how long the actions and links of a scenario take on this machine. The measurement runs its own
// programs, on the scenario's stages and placement. The measured figures are printed and written to a file
// that a scenario can name.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The number of ranks that work while an action is measured.
enum class CalibrationLoad : std::uint8_t {
  // Only one rank works at a time: one microbatch passes forward and backward through all stages (schedule
  // "naive"). A STEP follows.
  alone,
  busy,  // all ranks work; the stages run a 1F1B schedule
};
template <>
inline constexpr auto kEnumWords<CalibrationLoad> = std::to_array<EnumWord<CalibrationLoad>>(
    {{CalibrationLoad::alone, "alone"}, {CalibrationLoad::busy, "busy"}});

/// The form of the backward passes. `whole` is one B. `split` is an I (gradient of the input) and a W
/// (gradient of the weights). With `both`, the two forms alternate.
enum class BackwardForm : std::uint8_t { whole, split, both };

struct CalibrationShape {
  CalibrationLoad load = CalibrationLoad::alone;
  std::int32_t microbatches = 1;
  /// The form of the backward passes. With `both`, even microbatches use B, and odd ones use I (gradient of
  /// the input) and W (gradient of the weights).
  BackwardForm backward = BackwardForm::whole;
  bool recomputes = false;  ///< true if an R comes before each backward pass
};

/// Returns the program that measures the stages. It is valid and has no SENDs and RECVs. Each stage is on the
/// rank that holds its first replica in `like`.
tl::expected<Program, std::string> calibration_program(const Program& like, const CalibrationShape& shape);

/// Returns the experiment in which the stages of `scenario` run calibration_program(like, shape). It has
/// the microbatch size `micro_batch_size` and the default channel options. Fails if prepare() rejects the
/// experiment.
tl::expected<Experiment, UserError> calibration_experiment(const Scenario& scenario, const Program& like,
                                                           const CalibrationShape& shape,
                                                           std::int64_t micro_batch_size);

/// The kinds of backward actions that are measured, in addition to F and STEP.
enum class CalibrationKinds : std::uint8_t {
  needed,  // only the kinds that the scenario's program uses
  all,     // B, I and W, for schedules with whole and with split backward passes
};
template <>
inline constexpr auto kEnumWords<CalibrationKinds> = std::to_array<EnumWord<CalibrationKinds>>(
    {{CalibrationKinds::needed, "needed"}, {CalibrationKinds::all, "all"}});

struct CalibrationOptions {
  /// The factors by which the microbatch size of the scenario file is multiplied. There are at least three,
  /// all different.
  std::vector<std::int32_t> multiples{1, 2, 4};
  std::int32_t warmup = 5;    ///< number of actions of each kind that run first and are not measured
  std::int32_t samples = 30;  ///< number of measured actions of each kind, for each size and load
  CalibrationKinds kinds = CalibrationKinds::needed;
  CalibrationLoad load = CalibrationLoad::busy;  ///< the load from which the model's times are taken
  /// The largest accepted spread of the durations: the width of the middle half, divided by the median. A
  /// run with a larger spread is repeated.
  double steady = 0.04;
  /// The largest number of runs. If no run has an accepted spread, the run with the smallest spread is
  /// used.
  std::int32_t attempts = 3;
};

/// A function that runs an experiment once. It returns the timeline, and the memory if the stage modules
/// report it.
using CalibrationRun = std::function<tl::expected<Result, UserError>(const Experiment&)>;

/// The measured durations of one kind of action at one microbatch size.
struct KindAtSize {
  std::int64_t micro_batch_size = 1;
  Spread alone{};
  Spread busy{};  ///< STEP has no samples here, because it is only measured alone
};

struct KindCalibration {
  ActionKind kind = ActionKind::forward;
  std::vector<KindAtSize> sizes{};  ///< sorted by microbatch size, smallest first
  Line alone{};                     ///< line through the means in ns: a fixed overhead and a time per sample
  Line busy{};

  const Line& line(CalibrationLoad load) const { return load == CalibrationLoad::alone ? alone : busy; }
  /// Returns the duration for a microbatch size. For a measured size, this is the mean of the measured
  /// durations. For all other sizes, it is the value of the fitted line.
  double duration_ns(CalibrationLoad load, std::int64_t micro_batch_size) const;
};

/// One kind of link: all links of a uniform cluster, the links inside servers, or the links between servers.
struct LinkCalibration {
  std::string name;  ///< "between ranks", "inside a server" or "between servers"
  struct Point {
    Bytes bytes = 0;
    /// The time from the end of the sending action to the start of the action that waits for the message.
    Spread hop;
  };
  std::vector<Point> points;  ///< sorted by bytes, smallest first
  Ns latency_ns = 0;          ///< fitted latency, without the launch time, which each action already includes
  /// The fitted bandwidth. It is the scenario's bandwidth if the time of a message did not depend on its
  /// size.
  double bytes_per_second = 0;
  bool bandwidth_measured = false;  ///< true if `bytes_per_second` is the fitted bandwidth
};

/// A function that returns the bytes that each stage of an experiment stores and sends, as its stage
/// modules report them. The result is empty if the modules store nothing.
using BytesOfStages = std::function<std::vector<StageBytes>(const Experiment&)>;

struct Calibration {
  std::string scenario{};
  std::string engine{};  ///< for example "cpu-thread"
  CalibrationOptions options{};
  std::int64_t own_micro_batch_size = 1;
  std::int32_t ranks = 0;
  /// The time between the end of one action and the start of the next one on a rank that waits for no
  /// message.
  Spread alone_launch{};
  Spread busy_launch{};
  /// Costs of each kind of action, by stage and then sorted by kind.
  std::vector<std::vector<KindCalibration>> stages{};
  std::vector<LinkCalibration> links{};  ///< costs of each kind of link that the program uses
  /// The peak memory of each rank in the run with load `busy` at the smallest microbatch size. Empty if the
  /// stage modules report no memory.
  std::vector<Bytes> peak_bytes{};
  /// True if the stage modules reported the bytes that they store and send. Otherwise these bytes are copied
  /// from the scenario.
  bool counted_bytes = false;
  std::vector<std::string> notes{};

  StageFigures model{};
  std::optional<ClusterSpec> cluster{};  ///< absent if the scenario lists its links one by one
};

/// A function that receives the number of finished measurements and the number of all measurements. There
/// is one measurement for each size, load and form of the backward pass.
using CalibrationProgress = std::function<void(std::size_t done, std::size_t total)>;

/// Measures the stages and links of `scenario` at every microbatch size, with the loads `alone` and `busy`.
/// At the microbatch size of the scenario file, the durations of the result are exact. The model has only
/// one overhead for each stage, and the time of B is always the sum of the times of I and W. If this causes
/// an error above 1 %, a note tells the user (formulas: calibrated_parts.cpp). Collectives are not
/// measured. Fails if `run` fails, if prepare() rejects the scenario, or if there are fewer than three
/// sizes.
tl::expected<Calibration, UserError> calibrate(const Scenario& scenario, const CalibrationOptions& options,
                                               const CalibrationRun& run, const BytesOfStages& bytes_of = {},
                                               const CalibrationProgress& progress = {});

// Converts the measurements of a calibration to two parts of a scenario: the stages of the model, and the
// cluster. Used by calibration.cpp.

/// The kinds of backward actions in the scenario's program. For these kinds, the calibrated model has exactly
/// the measured times.
struct NeededKinds {
  bool whole_backward = false;
  bool split_backward = false;
  bool recompute = false;
};
NeededKinds needed_kinds(const Program& program);

/// The measured times and sizes of the stages, in the form of a scenario's model.
struct CalibratedModel {
  StageFigures figures;
  /// Notes for the user about measured times that the model cannot express exactly.
  std::vector<std::string> notes;
};
/// Returns a model with the measured times and the bytes of `own`. `own` is the experiment of the scenario
/// with the microbatch size of its file.
CalibratedModel calibrated_model(const Calibration& calibration, const Experiment& own,
                                 const NeededKinds& needed);

/// Returns the fitted latency and bandwidth of each kind of link. The fit uses the messages of the runs
/// with the load `alone`. `launch_ns` is subtracted from each latency.
std::vector<LinkCalibration> fitted_links(const std::vector<Hop>& hops, const ClusterSpec& spec,
                                          const Cluster& cluster, Ns launch_ns);

/// Returns `spec` with the latencies and bandwidths of `links`. Returns nothing if `spec` lists each link
/// separately.
std::optional<ClusterSpec> calibrated_cluster(const ClusterSpec& spec,
                                              const std::vector<LinkCalibration>& links);

// Writes a calibration: for a terminal, as JSON, and as a file of costs that scenarios can name.

/// Returns a text with four parts: how the calibration was measured, a table of stages and action kinds, a
/// table of link kinds, and notes.
std::string calibration_to_table(const Calibration& calibration);
/// Returns the calibration as one JSON object. Its keys are schema_version, the conditions of the
/// measurement, stages, launches, links and notes.
std::string calibration_to_json(const Calibration& calibration);

// Writes a calibration to a file. A scenario can use the file as `model: costs.yaml` and `cluster:
// costs.yaml`.

/// Returns the measured costs as YAML with the parts `model` and `cluster`. `model` has the stages and
/// their microbatch size. `cluster` is absent if the scenario lists each link separately. A comment says
/// how the values were measured. The functions of load.hpp read this file.
std::string cost_file(const Calibration& calibration);

}  // namespace penstock
