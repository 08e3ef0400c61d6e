#pragma once
// What the actions and links of a scenario cost where they are run, measured apart from the program that is
// to be predicted. cost_file.hpp writes the answer as a part that a scenario names; calibration_text.hpp
// prints it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backend/calibration/calibration_program.hpp"
#include "backend/calibration/line_fit.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/stage_bytes.hpp"
#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/cluster_spec.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Which actions are measured beside F and STEP.
enum class CalibrationKinds : std::uint8_t {
  needed,  // those that the scenario's program has
  all,     // B as well as I and W, so that one file serves schedules of both sorts
};

struct CalibrationOptions {
  std::vector<std::int32_t> multiples{1, 2,
                                      4};  ///< of the file's own microbatch; three or more, all different
  std::int32_t warmup = 5;                 ///< of each kind, not counted
  std::int32_t samples = 30;               ///< of each kind, size and load
  CalibrationKinds kinds = CalibrationKinds::needed;
  CalibrationLoad load = CalibrationLoad::busy;  ///< whose times become the model's
  double steady = 0.04;       ///< a run whose durations spread more (middle half over median) is repeated ...
  std::int32_t attempts = 3;  ///< ... until so many were made; the steadiest counts
};

/// Runs an experiment once and returns its timeline (and memory, where the modules account for it).
using CalibrationRun = std::function<tl::expected<Result, RunError>(const Experiment&)>;

/// The measurements of one kind of action at one size.
struct KindAtSize {
  std::int64_t micro_batch_size = 1;
  Spread alone{};
  Spread busy{};  ///< STEP is measured alone only
};

struct KindCalibration {
  ActionKind kind = ActionKind::forward;
  std::vector<KindAtSize> sizes{};  ///< ascending
  Line alone{};                     ///< medians in ns against samples: overhead and time a sample
  Line busy{};

  const Line& line(CalibrationLoad load) const { return load == CalibrationLoad::alone ? alone : busy; }
  /// At the file's own microbatch: the median where that size was measured, the line's otherwise.
  double duration_ns(CalibrationLoad load, std::int64_t micro_batch_size) const;
};

/// One kind of link: all of a uniform cluster, those inside servers, those between them.
struct LinkCalibration {
  std::string name;  ///< "between ranks", "inside a server", "between servers"
  struct Point {
    Bytes bytes = 0;
    Spread hop;  ///< from the end of the action that sends to the start of the one that waited
  };
  std::vector<Point> points;        ///< ascending
  Ns latency_ns = 0;                ///< of the fit, without what each action's launch takes anyway
  double bytes_per_second = 0;      ///< of the fit; the scenario's where no size made a difference
  bool bandwidth_measured = false;  ///< false: the scenario's
};

/// What the stages of an experiment hold and send, as its modules find it; empty: they store nothing.
using BytesOfStages = std::function<std::vector<StageBytes>(const Experiment&)>;

struct Calibration {
  std::string scenario{};
  std::string engine{};  ///< "cpu-thread"
  CalibrationOptions options{};
  std::int64_t own_micro_batch_size = 1;
  std::int32_t ranks = 0;
  Spread alone_launch{};  ///< from one action's end to the next one's start on a rank that waits for nothing
  Spread busy_launch{};
  std::vector<std::vector<KindCalibration>> stages{};  ///< by stage, kinds ascending
  std::vector<LinkCalibration> links{};                ///< only what was used
  std::vector<Bytes>
      peak_bytes{};            ///< by rank, of the busy run at the smallest size; empty: not accounted for
  bool counted_bytes = false;  ///< bytes are what the modules hold; false: the scenario's
  std::vector<std::string> notes{};

  StageFigures model{};
  std::optional<ClusterSpec> cluster{};  ///< absent: the scenario's is given link by link
};

/// Measures the stages and links of `scenario` by programs of its own (calibration_program.hpp), each at
/// every size, alone and busy. Every kind is exact at the file's own microbatch; a model has one overhead a
/// stage, and B = I + W, and notes say where that leaves more than 1 % (calibrated_parts.cpp has the
/// formulas). Collectives are not measured. Errors: what `run` returns; a scenario that prepare() does not
/// take; fewer than three sizes.
tl::expected<Calibration, RunError> calibrate(const Scenario& scenario, const CalibrationOptions& options,
                                              const CalibrationRun& run, const BytesOfStages& bytes_of = {});

}  // namespace penstock
