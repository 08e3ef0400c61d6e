#pragma once
// Converts the measurements of a calibration to two parts of a scenario: the stages of the model, and the
// cluster. Used by calibration.cpp.

#include <optional>
#include <string>
#include <vector>

#include "backend/calibration/calibration.hpp"
#include "backend/calibration/calibration_samples.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"

namespace penstock {

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

}  // namespace penstock
