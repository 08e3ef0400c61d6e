#pragma once
// From what a calibration measured to the parts of a scenario: the model's stages and the cluster. Used by
// calibration.cpp.

#include <optional>
#include <string>
#include <vector>

#include "backend/calibration/calibration.hpp"
#include "backend/calibration/calibration_samples.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/cluster_spec.hpp"

namespace penstock {

/// Which backward the scenario's own program has; the model's times are exact for it.
struct NeededKinds {
  bool whole_backward = false;
  bool split_backward = false;
  bool recompute = false;
};
NeededKinds needed_kinds(const Program& program);

/// A stage's times as the model has them.
struct CalibratedModel {
  StageFigures figures;
  std::vector<std::string> notes;  ///< what the model cannot say exactly
};
/// The measured times with the bytes of `own`, the scenario priced at its own microbatch.
CalibratedModel calibrated_model(const Calibration& calibration, const Experiment& own,
                                 const NeededKinds& needed);

/// Fits the hops of the runs alone, kind of link by kind of link.
std::vector<LinkCalibration> fitted_links(const std::vector<Hop>& hops, const ClusterSpec& spec,
                                          const Cluster& cluster, Ns launch_ns);

/// `spec` with the fitted figures in place; nothing for a cluster given link by link.
std::optional<ClusterSpec> calibrated_cluster(const ClusterSpec& spec,
                                              const std::vector<LinkCalibration>& links);

}  // namespace penstock
