// Writes the parts `model:` and `cluster:` of a scenario to one file. It uses the writers of scenarios.
// Predictions therefore read measured figures by the same code as figures that a user has typed.

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
  // value() cannot fail, because a calibrated cluster always has a form that can be written.
  return text + cluster_to_yaml(*calibration.cluster).value();
}

}  // namespace penstock
