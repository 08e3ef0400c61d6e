#pragma once
// Judges the claims of against_best() (tune_questions.hpp). It finds the part of a step that a better
// configuration shortens, and whether measurements support the claim.

#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "sim/choose/tune_questions.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/step_parts.hpp"

namespace penstock {

/// The claim that the best configuration of a search is faster than a measured run.
struct BestClaim {
  StepSeconds own{};   ///< parts of the run's predicted step
  StepSeconds best{};  ///< parts of the best configuration's step
  /// The part that the best configuration shortens most.
  StepPart through = StepPart::products;
  /// True if no other run of the same job has a shorter measured step than this run.
  bool is_best_measured = false;
  /// True if measurements support the claim, by the rules of best_claims().
  bool is_believable = true;
  /// The reason for a claim that exceeds the best measured run of the job by more than kClaimToJustify.
  /// Empty for all other claims.
  std::string note{};
};
/// The relative gain over the best measured run from which on a claim needs a reason.
inline constexpr double kClaimToJustify = 0.05;

/// Judges, for each run, the claim that a better configuration exists. `rows` must be the result of
/// against_best() for these runs. `report` must be the result of predict_runs() with the devices' own
/// constants. A believable claim exceeds twice the usual error of a ratio between two configurations of one
/// job. In addition, each value of the claimed configuration's choices must occur in some run. Returns an
/// error that names the run if a configuration cannot be prepared.
tl::expected<std::vector<BestClaim>, std::string> best_claims(const MeasuredRuns& runs,
                                                              const RunsReport& report,
                                                              std::span<const AgainstBest> rows);

}  // namespace penstock
