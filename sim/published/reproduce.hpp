#pragma once
// Predicts figures that papers have published. A reproduction is one experiment of a paper: a list of
// figures, each with the published and the predicted value. A new reproduction needs a function in a file,
// and a row in the table of reproduce.cpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/shape.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export
#include "topology/cluster.hpp"

namespace penstock {

/// The kind of claim that a figure makes. It does not depend on whether the prediction meets the claim;
/// holds() returns that.
enum class FigureClass : std::uint8_t {
  equal,    ///< a printed figure that the prediction must meet within a tolerance
  bound,    ///< a printed limit, in numbers or words, that the prediction must not cross
  formula,  ///< a value from a formula, a drawing or a published algorithm
  missed,   ///< a printed figure that the prediction does not meet; the note states the reason
  fitted,   ///< a printed figure from which a constant of the prediction was computed, so it tests nothing
  shown,    ///< a predicted figure that the paper does not print
};
template <>
inline constexpr auto kEnumWords<FigureClass> =
    std::to_array<EnumWord<FigureClass>>({{FigureClass::equal, "equal"},
                                          {FigureClass::bound, "bound"},
                                          {FigureClass::formula, "formula"},
                                          {FigureClass::missed, "missed"},
                                          {FigureClass::fitted, "fitted"},
                                          {FigureClass::shown, "ours"}});

/// The reason why a prediction may differ from a printed figure. Each reason has one tolerance for all
/// figures (`tolerance_table()`), so that no tolerance can be fitted to a figure.
enum class Tolerance : std::uint8_t { exact, nanoseconds, rounding, size, ratio, step };

/// A tolerance with its width and the reason for it.
struct ToleranceKind {
  Tolerance tolerance = Tolerance::exact;
  std::string_view word;  ///< "rounding"
  /// Fraction of the published figure. It is 0 for rounding, for which the printed digits determine the
  /// tolerance.
  double part = 0;
  std::string_view reason;  ///< One sentence without a full stop.
};
/// All tolerances, in the order of the enum.
std::span<const ToleranceKind> tolerance_table();
const ToleranceKind& kind_of(Tolerance tolerance);

/// The kind of a limit: the prediction must be at most, or at least, the bound.
enum class BoundSide : std::uint8_t { at_most, at_least };

/// One figure of a reproduction, with its published and its predicted value.
struct ReproducedFigure {
  std::string what;  ///< Setting and figure, for example "K = 8, M = 24, zb-h1: bubble rate".
  FigureClass figure_class = FigureClass::equal;
  std::optional<double> published{};  ///< Printed number or value of the formula. Absent if there is none.
  double predicted = 0;
  Tolerance tolerance_kind = Tolerance::exact;
  int decimals = 0;  ///< Printed digits after the decimal point, for `Tolerance::rounding`.
  BoundSide side = BoundSide::at_most;  ///< side of the bound; used only for bounds
  /// The limit that the paper states in words. For example, "faster" means a ratio of 1.
  std::optional<double> bound{};
  std::string note{};  ///< A remark, for example about a misprint in the paper.

  /// Returns true if the figure makes a claim that a prediction may miss.
  bool is_held() const;
  /// Returns true if the category of the figure is `equal` or `missed`. In both, a prediction is compared
  /// with a printed number.
  bool is_printed() const;
  /// Returns the largest allowed distance from the published figure or bound, in the figure's unit.
  double tolerance() const;
  /// Returns true if the prediction meets the claim, or if the figure makes no claim.
  bool holds() const;
  /// Returns (predicted - published) / |published|. Returns nothing if the published value is absent or 0.
  std::optional<double> relative_error() const;
};

/// Returns a printed figure that the prediction must meet within this kind of tolerance.
ReproducedFigure equal(Tolerance kind, std::string what, double published, double predicted);
/// Returns a figure of the category `equal` whose number is printed with `decimals` decimals. The
/// prediction must meet it within half a unit of the last digit.
ReproducedFigure rounded(int decimals, std::string what, double published, double predicted);
/// Returns a figure of the category `formula`. `published` is a value from a formula, a drawing or an
/// algorithm, not a printed number.
ReproducedFigure formula(std::string what, double published, double predicted,
                         Tolerance kind = Tolerance::exact);
/// Return a figure of the category `bound` with a printed limit. The prediction must be at least, or at
/// most, `published`.
ReproducedFigure at_least(std::string what, double published, double predicted);
ReproducedFigure at_most(std::string what, double published, double predicted);
/// Return a figure of the category `bound` with a limit that the paper states in words. The predicted ratio
/// must be at least, or at most, `bound`.
ReproducedFigure no_less(std::string what, double predicted, double bound = 1);
ReproducedFigure no_more(std::string what, double predicted, double bound = 1);
/// Returns a figure of the category `missed`: a printed number that the prediction does not meet. `note`
/// gives the reason.
ReproducedFigure missed(Tolerance kind, std::string what, double published, double predicted,
                        std::string note);
/// Returns a figure of the category `fitted`: a printed number that was used to fit a constant. `note`
/// names this constant.
ReproducedFigure fitted(std::string what, double published, double predicted, std::string note);
/// Returns a figure of the category `shown`: a predicted value that the paper does not print.
ReproducedFigure shown(std::string what, double predicted);
ReproducedFigure noted(ReproducedFigure figure, std::string note);
/// Returns `figure` with the tolerance of a number that is printed with `decimals` decimals.
ReproducedFigure with_decimals(int decimals, ReproducedFigure figure);

/// One experiment of a paper that this program repeats, with the function that predicts its figures.
struct Reproduction {
  std::string_view name;     ///< for example "zero-bubble-table-5"
  std::string_view source;   ///< the paper, and the section, table or figure
  std::string_view setting;  ///< the assumptions that replace what the paper does not state, and the units
  std::vector<ReproducedFigure> (*run)() = nullptr;
};

/// Returns all experiments that can be reproduced.
std::span<const Reproduction> reproduction_table();

// Each of these functions computes the figures of one experiment.
std::vector<ReproducedFigure> reproduce_pipedream_figures();
std::vector<ReproducedFigure> reproduce_megatron_schedule();
std::vector<ReproducedFigure> reproduce_schedule_memory();
std::vector<ReproducedFigure> reproduce_pipedream_depth();
std::vector<ReproducedFigure> reproduce_pipedream_plans();
std::vector<ReproducedFigure> reproduce_pipedream_traffic();
std::vector<ReproducedFigure> reproduce_pipedream_cluster_a();
std::vector<ReproducedFigure> reproduce_pipedream_cluster_b();
std::vector<ReproducedFigure> reproduce_pipedream_table_1();
std::vector<ReproducedFigure> reproduce_pipedream_server();
std::vector<ReproducedFigure> reproduce_pipedream_memory();
std::vector<ReproducedFigure> reproduce_pipedream_in_flight();
std::vector<ReproducedFigure> reproduce_flexflow();
std::vector<ReproducedFigure> reproduce_replicator();
std::vector<ReproducedFigure> reproduce_gpipe_schedule();
std::vector<ReproducedFigure> reproduce_gpipe_speed();
std::vector<ReproducedFigure> reproduce_gpipe_memory();
std::vector<ReproducedFigure> reproduce_torchgpipe();
std::vector<ReproducedFigure> reproduce_horovod();
std::vector<ReproducedFigure> reproduce_data_parallelism();
std::vector<ReproducedFigure> reproduce_zero();
std::vector<ReproducedFigure> reproduce_zero_bubble_table_5();
std::vector<ReproducedFigure> reproduce_zero_bubble_memory();
std::vector<ReproducedFigure> reproduce_megatron_sc21();
std::vector<ReproducedFigure> reproduce_recomputation();
std::vector<ReproducedFigure> reproduce_stage_times();
std::vector<ReproducedFigure> reproduce_measured_runs();

// Functions that the reproductions of papers share: programs in units of time on links that take no time,
// models of the library, runs on real clusters, and the memory of weights, gradients and optimizer state.
// Only the reproduce_*.cpp files use it. The functions throw std::logic_error if something cannot be planned,
// generated or run, because the reproduction is then wrong.

/// The times of one stage for a microbatch, in units of time. They are rounded to a millionth of a unit.
struct UnitTimes {
  double forward = 1;
  double backward = 2;
  double recompute = 1;
};

/// The nanoseconds of one unit of time in a predicted run.
inline constexpr double kUnitNs = 1e6;

std::vector<UnitTimes> equal_stages(std::size_t count, const UnitTimes& times = {});

/// Generates the program of a schedule and predicts its run. Each message takes `latency` units of time.
Result predicted_run(const std::string& schedule, const Shape& shape, const std::vector<UnitTimes>& stages,
                     double latency = 0);

/// Returns the milliseconds of an all-reduce of `gradients` bytes over all devices of a cluster.
double reduction_ms(Cluster cluster, Bytes gradients);

double makespan_units(const Result& result);
/// Returns the steady time of one microbatch, in units of time. Returns 0 if the program has no period.
double period_units(const Result& result);

// A model of scenarios/library/models. Its text is part of the program, so published figures need no files.

struct LibraryModel {
  LayerGraph graph;
  std::int64_t batch = 1;  ///< number of samples to which the profile's times and bytes belong
};

/// Returns the model with the name "vgg16", "resnet50", "alexnet" or "gnmt". Other names are not allowed.
LibraryModel library_model(std::string_view name);

/// A model of the library, with the settings of its training in PipeDream's repository.
struct Training {
  const char* model;         ///< name for library_model()
  const char* title;         ///< name of the model in the paper
  std::int64_t samples = 1;  ///< number of samples in one worker's minibatch
  Optimizer optimizer = Optimizer::momentum;
};
inline constexpr Training kVgg16{.model = "vgg16", .title = "VGG-16", .samples = 64};
inline constexpr Training kAlexNet{.model = "alexnet", .title = "AlexNet", .samples = 256};
inline constexpr Training kResNet50{.model = "resnet50", .title = "ResNet-50", .samples = 128};
inline constexpr Training kGnmt8{
    .model = "gnmt", .title = "GNMT-8", .samples = 64, .optimizer = Optimizer::adam};

/// Returns the scenario of a training on a cluster. The caller adds data parallelism or a pipeline.
Scenario training_scenario(const Training& training, const ClusterSpec& cluster);
/// Returns the preset "pipedream-a" or "pipedream-b" with the given number of servers.
ClusterSpec pipedream_cluster(const std::string& preset, std::int32_t servers);

/// The largest ratio of two memories that counts as "on a par". The paper uses these words to compare a
/// pipeline with data parallelism. It prints no number, so this value is Penstock's.
inline constexpr double kOnAPar = 1.75;

/// The figures of one predicted training in its steady state.
struct ClusterRun {
  std::string configuration;  ///< number of replicas of each stage, for example "15-1"
  double samples_per_second = 0;
  double megabytes_a_sample = 0;   ///< megabytes (1e6 bytes) that all devices send for one sample
  std::vector<double> stages_gib;  ///< GiB of the fullest device of each stage

  double fullest_gib() const;
};

/// Predicts a training with data parallelism on `devices` devices. Each device has the whole model, and the
/// gradients are reduced in eight buckets.
ClusterRun data_parallel_run(const Scenario& training, std::int32_t devices,
                             Reduction reduction = Reduction::overlapped);

/// A pipeline whose cuts and replicas the caller chooses.
struct CutPipeline {
  std::vector<std::int32_t> cuts;      ///< number of layers before each cut; if empty, stages are balanced
  std::vector<std::int32_t> replicas;  ///< replicas of each stage
  std::vector<std::int32_t> warmup{};  ///< number of warm-up forwards of each stage; if empty, those of NOAM
};
/// Predicts a training with the given pipeline and the schedule 1F1B-RR.
ClusterRun pipeline_run(const Scenario& training, const CutPipeline& pipeline);

/// Predicts a training with the schedule 1F1B-RR. Its pipeline is the plan that PipeDream's dynamic programme
/// finds with the formula as the paper prints it.
ClusterRun planned_run(const Scenario& training, const PlanOptions& options);
/// Predicts a training like planned_run(), with more minibatches in flight. Each worker has NOAM (the paper's
/// number) plus `more` of them, even if they do not fit in memory.
ClusterRun deeper_planned_run(const Scenario& training, const PlanOptions& options, std::int32_t more);

/// The bytes that a stage stores while one microbatch is in flight.
struct StageState {
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;
  Bytes activations = 0;
};

/// Returns the peak memory in bytes of a device that holds the whole stage.
Bytes peak_of_one_stage(const StageState& state);

/// A model that is trained by data parallelism on `devices` devices. `sharding` is the stage of ZeRO, from 0
/// (nothing is sharded) to 3. A step processes the model bucket by bucket.
struct ShardedModel {
  StageState state;
  std::int32_t devices = 1;
  std::int32_t buckets = 1;
  std::int32_t sharding = 0;
};

/// Returns the peak bytes of the fullest device.
Bytes peak_of(const ShardedModel& model);
/// Returns the bytes that each device sends in one step.
Bytes sent_bytes(const ShardedModel& model);

}  // namespace penstock
