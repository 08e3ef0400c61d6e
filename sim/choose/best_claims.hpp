#pragma once
// Judges the claims of against_best() (tune_questions.hpp): which part of a step a better configuration
// saves, and whether measurements support the claim.

#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "sim/choose/tune_questions.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/step_parts.hpp"

namespace penstock {

/// The best configuration that a search finds, compared with a run.
struct BestClaim {
  StepSeconds own{};   ///< parts of the run's predicted step
  StepSeconds best{};  ///< parts of the best configuration's step
  /// The part that the best configuration shortens most.
  StepPart through = StepPart::products;
  /// True if no other run of the same job has a shorter measured step.
  bool is_best_measured = false;
  /// True if measurements support the claim.
  bool is_believable = true;
  /// The reason, if the claim is above kClaimToJustify over the best measured run of a job; empty otherwise.
  std::string note{};
};
/// The relative gain over the best measured run from which on a claim needs a reason.
inline constexpr double kClaimToJustify = 0.05;

/// Judges the claim for each run. `rows` must be the result of against_best() for these runs, and `report`
/// that of predict_runs() with the devices' own constants. A claim is believable if it is above twice the
/// usual error of a ratio between two configurations of one job, and if some run has each value of its
/// choices. Error: a configuration cannot be prepared; the message names the run.
tl::expected<std::vector<BestClaim>, std::string> best_claims(const MeasuredRuns& runs,
                                                              const RunsReport& report,
                                                              std::span<const AgainstBest> rows);

}  // namespace penstock
