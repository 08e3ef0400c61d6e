#pragma once
// Turns the measurements of a calibration into parts of a scenario: the model's stages and the cluster. Used
// by calibration.cpp.

#include <optional>
#include <string>
#include <vector>

#include "backend/calibration/calibration.hpp"
#include "backend/calibration/calibration_samples.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/cluster_spec.hpp"

namespace penstock {

/// The kinds of backward in the scenario's own program. The model's times are exact for these.
struct NeededKinds {
  bool whole_backward = false;
  bool split_backward = false;
  bool recompute = false;
};
NeededKinds needed_kinds(const Program& program);

/// The times of the stages in the form of a model.
struct CalibratedModel {
  StageFigures figures;
  std::vector<std::string> notes;  ///< notes about what the model cannot express exactly
};
/// Returns the measured times with the bytes of `own`, which is the scenario priced at its own microbatch.
CalibratedModel calibrated_model(const Calibration& calibration, const Experiment& own,
                                 const NeededKinds& needed);

/// Fits a line to the hops of the `alone` runs for each kind of link.
std::vector<LinkCalibration> fitted_links(const std::vector<Hop>& hops, const ClusterSpec& spec,
                                          const Cluster& cluster, Ns launch_ns);

/// Returns `spec` with the fitted figures, or nothing for a cluster that is given link by link.
std::optional<ClusterSpec> calibrated_cluster(const ClusterSpec& spec,
                                              const std::vector<LinkCalibration>& links);

}  // namespace penstock
