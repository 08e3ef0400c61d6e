#include "backend/cost_file.hpp"

#include <string>

#include <fmt/format.h>

#include "backend/calibration.hpp"
#include "backend/calibration_text.hpp"
#include "scenarios/scenario_text.hpp"

namespace penstock {

std::string cost_file(const Calibration& calibration) {
  std::string text = comment_to_yaml(
      "Measured by `penstock calibrate`. A scenario takes it by `model: FILE` and `cluster: FILE`, or for "
      "once:\n"
      "penstock simulate SCENARIO --set model=FILE --set cluster=FILE\n\n" +
      calibration_to_table(calibration) + "\n" +
      (calibration.counted_bytes ? "Bytes are what the modules hold and send."
                                 : "Bytes are the scenario's."));
  text += "\n" + stages_to_yaml(calibration.model, calibration.own_micro_batch_size);
  if (!calibration.cluster)
    return text + comment_to_yaml("The cluster is given link by link: keep the scenario's.");
  // A calibrated cluster has a form that can be written.
  return text + cluster_to_yaml(*calibration.cluster).value();
}

}  // namespace penstock
