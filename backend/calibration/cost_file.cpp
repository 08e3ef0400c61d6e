// Two parts of a scenario in one file, `model:` and `cluster:`, written by the writers that scenarios have
// and read back by their loaders, so that a measurement enters a prediction by the same door as figures that
// somebody typed. How it was measured stays above it as a comment.

#include "backend/calibration/cost_file.hpp"

#include <string>

#include <fmt/format.h>

#include "backend/calibration/calibration.hpp"
#include "backend/calibration/calibration_text.hpp"
#include "scenarios/read/scenario_text.hpp"

namespace penstock {

std::string cost_file(const Calibration& calibration) {
  const std::string head = fmt::format(
      "Measured by `penstock calibrate`. A scenario takes it by `model: FILE` and `cluster: FILE`, or for "
      "once:\n"
      "penstock simulate SCENARIO --set model=FILE --set cluster=FILE\n\n{}\n{}",
      calibration_to_table(calibration),
      calibration.counted_bytes ? "Bytes are what the modules hold and send." : "Bytes are the scenario's.");
  const std::string text = fmt::format("{}\n{}", comment_to_yaml(head),
                                       stages_to_yaml(calibration.model, calibration.own_micro_batch_size));
  if (!calibration.cluster)
    return text + comment_to_yaml("The cluster is given link by link: keep the scenario's.");
  // A calibrated cluster has a form that can be written.
  return text + cluster_to_yaml(*calibration.cluster).value();
}

}  // namespace penstock
