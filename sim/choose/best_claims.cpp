// Finds the part of a step in which a better configuration saves time, and judges whether the gain is
// believable. The predicted ratio of two configurations has an error, too. The usual error is known from
// pairs of configurations that were measured for one job (run_accuracy.hpp):
//
//     d = log(predicted ratio / measured ratio)        usual error = sqrt(mean of d^2)
//
// A gain below twice the usual error may be only an error. A gain is also doubtful if it comes from a choice
// that was never measured, because no measured pair shows the error for this choice. Tests:
// tests/sim/best_claims_test.cpp.

#include "sim/choose/tune_questions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/hold/run_accuracy.hpp"
#include "sim/sweep/parallel_loop.hpp"

namespace penstock {

namespace {

/// The root mean square error of predicted ratios of step times. A ratio is that of two configurations.
/// `pairs` is the number of measured pairs from which the error is computed.
struct RatioError {
  double deviation = 0;
  std::size_t pairs = 0;
  std::string of;  ///< the class of the pairs, or "all classes" if the pairs of all classes are used
};

/// Returns the error of predicted ratios for the pairs of one class. If the class has fewer than three pairs,
/// the pairs of all classes count. Returns nothing if there are no pairs at all.
std::optional<RatioError> ratio_error(const MeasuredRuns& runs, std::span<const RunPair> pairs,
                                      const std::string& of_class) {
  constexpr std::size_t kLeastPairs = 3;
  const auto over = [&](auto counts) {
    double squares = 0;
    std::size_t count = 0;
    for (const RunPair& pair : pairs) {
      if (!counts(pair)) continue;
      const double error = std::log1p(pair.predicted) - std::log1p(pair.measured);
      squares += error * error;
      ++count;
    }
    return RatioError{.deviation = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, count))),
                      .pairs = count,
                      .of = {}};
  };
  RatioError own = over([&](const RunPair& pair) {
    return class_of(runs.runs[pair.faster]) == of_class && class_of(runs.runs[pair.slower]) == of_class;
  });
  own.of = of_class;
  if (own.pairs >= kLeastPairs) return own;
  RatioError all = over([](const RunPair&) { return true; });
  all.of = "all classes";
  return all.pairs > 0 ? std::optional(all) : std::nullopt;
}

/// A choice of a configuration whose value is a number, such as the number of chunks. Predictions were
/// compared with measurements only from the least to the greatest measured value.
struct NumericChoice {
  std::string_view name;
  double (*value)(const Scenario&);
};
const Parallel& parallel_of(const Scenario& run) { return std::get<DeviceModel>(run.model).work.parallel; }
double chunks(const Scenario& run) {
  return static_cast<double>(chunks_of(*find_schedule(run.schedule), run.shape));
}
constexpr auto kNumericChoices = std::to_array<NumericChoice>(
    {{"tensor", [](const Scenario& run) { return static_cast<double>(parallel_of(run).tensor); }},
     {"context", [](const Scenario& run) { return static_cast<double>(parallel_of(run).context); }},
     {"expert", [](const Scenario& run) { return static_cast<double>(parallel_of(run).expert); }},
     {"stages", [](const Scenario& run) { return static_cast<double>(run.shape.stages); }},
     {"chunks of a rank", chunks},
     {"layers of a chunk",
      [](const Scenario& run) {
        const auto layers = static_cast<double>(std::get<DeviceModel>(run.model).work.model.layers.size());
        return layers / (run.shape.stages * chunks(run));
      }},
     {"samples of a microbatch",
      [](const Scenario& run) { return static_cast<double>(run.batch.micro_batch_size.value_or(1)); }}});

/// Returns the choices of a configuration that lie outside the values in the measured runs, such as "chunks
/// of a rank 20 (1 to 12 measured)".
std::vector<std::string> unmeasured_choices(const MeasuredRuns& runs, const Scenario& best) {
  std::vector<std::string> outside;
  for (const NumericChoice& choice : kNumericChoices) {
    const auto [least, most] = std::ranges::minmax(
        runs.runs, {}, [&](const MeasuredRun& run) { return choice.value(run.scenario); });
    const double low = choice.value(least.scenario);
    const double high = choice.value(most.scenario);
    const double value = choice.value(best);
    if (value < low || value > high)
      outside.push_back(fmt::format("{} {:.3g} ({:.3g} to {:.3g} measured)", choice.name, value, low, high));
  }
  const bool has_schedule = std::ranges::any_of(
      runs.runs, [&](const MeasuredRun& run) { return run.scenario.schedule == best.schedule; });
  if (!has_schedule) outside.push_back(fmt::format("schedule {} (never measured)", best.schedule));
  return outside;
}

/// Sets whether a claim is believable, and the note that explains it. `longer` is the claimed gain as a
/// fraction. `outside` are the choices that no run has measured.
void judge(BestClaim& claim, double longer, const std::optional<RatioError>& error,
           const std::vector<std::string>& outside) {
  const bool is_large = error && std::log1p(longer) > 2 * error->deviation;
  claim.is_believable = is_large && outside.empty();
  const std::string scatter =
      error ? fmt::format("ratios of two configurations of one job err by {:.1f} % ({} pairs, {})",
                          100 * error->deviation, error->pairs, error->of)
            : std::string("no pair of configurations of one job was measured");
  const std::string choices = outside.empty()
                                  ? std::string("each of its choices was measured")
                                  : fmt::format("nobody measured its {}", fmt::join(outside, ", "));
  claim.note = fmt::format("{:+.1f} % over the best measured run is {}: {}, and {}", 100 * longer,
                           claim.is_believable ? "believable" : "not believable", scatter, choices);
}

/// Returns the part of the predicted step that is shortened most by the best configuration, in comparison
/// with the measured run.
StepPart shortened_most(const BestClaim& claim) {
  std::size_t most = 0;
  for (std::size_t part = 1; part < kStepParts; ++part) {
    if (claim.own[part] - claim.best[part] > claim.own[most] - claim.best[most]) most = part;
  }
  return static_cast<StepPart>(most);
}

tl::expected<StepSeconds, std::string> parts_of(const Scenario& scenario) {
  const auto prices = RunPrices::make(scenario);
  if (!prices) return tl::unexpected(prices.error());
  return step_parts(*prices, own_constants(scenario));
}

/// Returns true if no other run of the same job has a shorter measured step than this run.
bool is_best_measured(std::span<const RunPair> pairs, std::size_t run) {
  return std::ranges::none_of(pairs, [&](const RunPair& pair) { return pair.slower == run; });
}

}  // namespace

tl::expected<std::vector<BestClaim>, std::string> best_claims(const MeasuredRuns& runs,
                                                              const RunsReport& report,
                                                              std::span<const AgainstBest> rows) {
  const std::vector<RunPair> pairs = run_pairs(runs, report);
  std::vector<tl::expected<BestClaim, std::string>> made(rows.size());
  parallel_loop(rows.size(), [&](std::size_t i) {
    const auto own = parts_of(runs.runs[i].scenario);
    const auto best = rows[i].best ? parts_of(*rows[i].best) : own;
    if (!own || !best) {
      made[i] = tl::unexpected(fmt::format("{}: {}", rows[i].id, own ? best.error() : own.error()));
      return;
    }
    BestClaim claim{.own = *own, .best = *best, .is_best_measured = is_best_measured(pairs, i)};
    claim.through = shortened_most(claim);
    if (claim.is_best_measured && rows[i].best && rows[i].longer() > kClaimToJustify) {
      judge(claim, rows[i].longer(), ratio_error(runs, pairs, class_of(runs.runs[i])),
            unmeasured_choices(runs, *rows[i].best));
    }
    made[i] = std::move(claim);
  });
  std::vector<BestClaim> claims;
  for (auto& one : made) {
    if (!one) return tl::unexpected(one.error());
    claims.push_back(*std::move(one));
  }
  return claims;
}

}  // namespace penstock
