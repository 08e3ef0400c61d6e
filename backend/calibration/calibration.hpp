#pragma once
// Measures what the actions and links of a scenario cost on this machine. It runs other programs than the one
// to be predicted, on the same stages and the same placement. calibration_text.hpp prints the answer, and
// writes it as a part that a scenario can name.

#include <array>
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

/// The load of the machine while an action is measured.
enum class CalibrationLoad : std::uint8_t {
  // Only one rank works at a time. One microbatch goes through all stages and back (naive schedule), and a
  // STEP follows.
  alone,
  busy,  // all ranks work, with a 1F1B schedule of the same stages
};
template <>
inline constexpr auto kEnumWords<CalibrationLoad> = std::to_array<EnumWord<CalibrationLoad>>(
    {{CalibrationLoad::alone, "alone"}, {CalibrationLoad::busy, "busy"}});

/// The form of the backward pass: B (whole), I and W (split), or both.
enum class BackwardForm : std::uint8_t { whole, split, both };

struct CalibrationShape {
  CalibrationLoad load = CalibrationLoad::alone;
  std::int32_t microbatches = 1;
  /// The form of the backward passes. For `both`, even microbatches have B, and odd ones have I and W.
  BackwardForm backward = BackwardForm::whole;
  bool recomputes = false;  ///< true if an R comes before each backward pass
};

/// Returns a valid program that is not lowered. Each stage is on the rank that holds its first replica in
/// `like`.
tl::expected<Program, std::string> calibration_program(const Program& like, const CalibrationShape& shape);

/// The kinds of actions that are measured beside F and STEP.
enum class CalibrationKinds : std::uint8_t {
  needed,  // those of the scenario's program
  all,     // B as well as I and W, so that the file can be used for schedules of both sorts
};
template <>
inline constexpr auto kEnumWords<CalibrationKinds> = std::to_array<EnumWord<CalibrationKinds>>(
    {{CalibrationKinds::needed, "needed"}, {CalibrationKinds::all, "all"}});

struct CalibrationOptions {
  std::vector<std::int32_t> multiples{1, 2,
                                      /// Factors of the file's own microbatch; three or more, all different.
                                      4};
  std::int32_t warmup = 5;    ///< actions of each kind that do not count
  std::int32_t samples = 30;  ///< actions of each kind, size and load that count
  CalibrationKinds kinds = CalibrationKinds::needed;
  CalibrationLoad load = CalibrationLoad::busy;  ///< load under which the model's times are measured
  /// Largest accepted spread of durations (middle half over median); a run with more is repeated.
  double steady = 0.04;
  std::int32_t attempts = 3;  ///< number of runs after which the one with the least spread is used
};

/// A function that runs an experiment once and returns its timeline, with memory if the modules report it.
using CalibrationRun = std::function<tl::expected<Result, UserError>(const Experiment&)>;

/// The measurements of one kind of action at one size.
struct KindAtSize {
  std::int64_t micro_batch_size = 1;
  Spread alone{};
  Spread busy{};  ///< absent for STEP, which is measured alone only
};

struct KindCalibration {
  ActionKind kind = ActionKind::forward;
  std::vector<KindAtSize> sizes{};  ///< ascending
  Line alone{};                     ///< medians in ns over samples: overhead and time per sample
  Line busy{};

  const Line& line(CalibrationLoad load) const { return load == CalibrationLoad::alone ? alone : busy; }
  /// Returns the duration at the file's own microbatch: the median if that size was measured, otherwise the
  /// line's value.
  double duration_ns(CalibrationLoad load, std::int64_t micro_batch_size) const;
};

/// One kind of link: all links of a uniform cluster, those inside servers, or those between servers.
struct LinkCalibration {
  std::string name;  ///< "between ranks", "inside a server" or "between servers"
  struct Point {
    Bytes bytes = 0;
    Spread hop;  ///< time from the end of the sending action to the start of the one that waited
  };
  std::vector<Point> points;        ///< ascending
  Ns latency_ns = 0;                ///< fitted latency, without the launch that each action takes anyway
  double bytes_per_second = 0;      ///< fitted bandwidth, or the scenario's if no size made a difference
  bool bandwidth_measured = false;  ///< false: the bandwidth is the scenario's, not fitted
};

/// A function that returns the bytes that the stages of an experiment hold and send, as its modules report
/// them; empty if they store nothing.
using BytesOfStages = std::function<std::vector<StageBytes>(const Experiment&)>;

struct Calibration {
  std::string scenario{};
  std::string engine{};  ///< for example "cpu-thread"
  CalibrationOptions options{};
  std::int64_t own_micro_batch_size = 1;
  std::int32_t ranks = 0;
  /// Time between one action's end and the next one's start on a rank that waits for nothing.
  Spread alone_launch{};
  Spread busy_launch{};
  std::vector<std::vector<KindCalibration>> stages{};  ///< by stage, kinds ascending
  std::vector<LinkCalibration> links{};                ///< only kinds of links that were used
  std::vector<Bytes>
      peak_bytes{};  ///< by rank, in the busy run at the smallest size; empty if the modules report none
  /// True if bytes are those that the modules hold. Otherwise they are the scenario's.
  bool counted_bytes = false;
  std::vector<std::string> notes{};

  StageFigures model{};
  std::optional<ClusterSpec> cluster{};  ///< absent if the scenario's cluster is given link by link
};

/// Measures the stages and links of `scenario` with its own programs, at every
/// size, alone and busy. Every kind is exact at the file's own microbatch. A model has one overhead for each
/// stage, and B = I + W; notes say where this causes an error above 1 % (calibrated_parts.cpp has the
/// formulas). Collectives are not measured. Errors: those of `run`; a scenario that prepare() refuses; fewer
/// than three sizes.
tl::expected<Calibration, UserError> calibrate(const Scenario& scenario, const CalibrationOptions& options,
                                               const CalibrationRun& run, const BytesOfStages& bytes_of = {});

}  // namespace penstock
