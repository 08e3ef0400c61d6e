// Estimates how accurate predictions are. Let e_j = log(predicted / measured) be the errors of the n other
// runs in the class of a run, with mean m and deviation s. Assume that the run's own error comes from the
// same distribution. Then its measured step lies with a probability of 90 % in
//
//     predicted x exp(-m +- t s sqrt(1 + 1/n))        t: quantile of Student's distribution
//
// Tests: tests/sim/run_accuracy_test.cpp.
#include "sim/hold/run_accuracy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/tools/toms748_solve.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/pricing/collectives.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/hold/predicted_runs.hpp"
#include "sim/sweep/parallel_loop.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// Returns the interval in which the measured step probably lies, from the errors of other runs. Returns
/// nothing if these are fewer than three.
std::optional<StepInterval> interval_of(double predicted, std::span<const double> others) {
  constexpr std::size_t kLeastRows = 3;
  if (others.size() < kLeastRows) return std::nullopt;
  const auto n = static_cast<double>(others.size());
  double mean = 0;
  for (const double error : others) mean += error / n;
  double squares = 0;
  for (const double error : others) squares += (error - mean) * (error - mean);
  constexpr double kInside = 0.9;
  const boost::math::students_t distribution(n - 1);
  const double half =
      boost::math::quantile(distribution, (1 + kInside) / 2) * std::sqrt(squares / (n - 1) * (1 + 1 / n));
  return StepInterval{.low = predicted * std::exp(-mean - half),
                      .high = predicted * std::exp(-mean + half),
                      .rows = others.size()};
}

}  // namespace

std::vector<std::optional<StepInterval>> step_intervals(const MeasuredRuns& runs, const RunsReport& report,
                                                        std::span<const double> errors) {
  std::vector<std::string> classes;
  classes.reserve(runs.runs.size());
  for (const MeasuredRun& run : runs.runs) classes.push_back(class_of(run));
  std::vector<std::optional<StepInterval>> intervals;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    std::vector<double> others;
    for (std::size_t j = 0; j < classes.size(); ++j) {
      if (j != i && classes[j] == classes[i]) others.push_back(errors[j]);
    }
    intervals.push_back(interval_of(report.rows[i].predicted_seconds, others));
  }
  return intervals;
}

std::vector<ExplainedRun> explain_runs(const PricedRuns& runs, const RunsReport& report) {
  const bool is_fitted = std::ranges::all_of(report.rows, &PredictedRun::fitted);
  std::vector<double> errors;
  if (is_fitted) {
    for (const LeftOutError& one : left_out_errors(runs)) errors.push_back(one.log_error);
  } else {
    for (const PredictedRun& row : report.rows) errors.push_back(std::log1p(row.error));
  }
  const auto intervals = step_intervals(*runs.runs, report, errors);
  std::vector<ExplainedRun> explained(report.rows.size());
  parallel_loop(explained.size(), [&](std::size_t i) {
    const PredictedRun& row = report.rows[i];
    ExplainedRun& one = explained[i];
    one.interval = intervals[i];
    one.parts = step_parts(runs.prices[i], row.constants);
    one.factors = explaining_factors(runs.prices[i], row.constants, one.parts, row.measured_seconds);
  });
  return explained;
}

// --- pairs ------------------------------------------------------------------------------------------------

namespace {

template <typename NameOf>
std::vector<PairCount> counted(std::span<const RunPair> pairs, const NameOf& name_of) {
  std::map<std::string, PairCount> counts;
  for (const RunPair& pair : pairs) {
    PairCount& count = counts[name_of(pair)];
    ++count.pairs;
    count.right += pair.is_right() ? 1 : 0;
  }
  std::vector<PairCount> named;
  for (auto& [name, count] : counts) {
    count.name = name;
    named.push_back(count);
  }
  return named;
}

}  // namespace

std::vector<RunPair> run_pairs(const MeasuredRuns& runs, const RunsReport& report) {
  std::vector<RunPair> pairs;
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const MeasuredJob job = job_of(runs.runs[i]);
    for (std::size_t j = i + 1; j < runs.runs.size(); ++j) {
      if (job_of(runs.runs[j]) != job || is_repeat(runs.runs[i], runs.runs[j])) continue;
      RunPair pair{.faster = i, .slower = j};
      if (report.rows[j].measured_seconds < report.rows[i].measured_seconds)
        std::swap(pair.faster, pair.slower);
      const PredictedRun& faster = report.rows[pair.faster];
      const PredictedRun& slower = report.rows[pair.slower];
      pair.measured = slower.measured_seconds / faster.measured_seconds - 1;
      pair.predicted = slower.predicted_seconds / faster.predicted_seconds - 1;
      if (pair.measured > kLeastPairDifference) pairs.push_back(pair);
    }
  }
  return pairs;
}

std::vector<PairCount> pairs_by_class(const MeasuredRuns& runs, std::span<const RunPair> pairs) {
  return counted(pairs, [&](const RunPair& pair) {
    std::string one = class_of(runs.runs[pair.faster]);
    std::string other = class_of(runs.runs[pair.slower]);
    if (one == other) return one;
    if (other < one) std::swap(one, other);
    return fmt::format("{} / {}", one, other);
  });
}

std::vector<PairCount> pairs_by_source(const MeasuredRuns& runs, std::span<const RunPair> pairs) {
  return counted(pairs, [&](const RunPair& pair) { return runs.runs[pair.faster].source; });
}

// Divides the time of a step into parts. The terms of layers (layer_terms.hpp) give the parts of each stage.
// The step of the rank that computes longest consists of its passes, one update, and waiting:
//
//     F F B F B F B B  | reduction, optimizer        parts: microbatches x terms, once a step
//         ^ waits: messages (rest), or another stage (bubble)
//
// The bubble is the waiting that remains if messages between stages have no bytes. A factor on a part changes
// the costs of all stages, and the program is timed again with these costs. The time is a convex function of
// the factor and never falls. So the factor that gives the measured time can be found between 0 and 8. Tests:
// tests/sim/run_accuracy_test.cpp.

namespace {

std::size_t number_of(StepPart part) { return static_cast<std::size_t>(part); }

/// The seconds of each part of a step (StepPart) in the forward and backward pass of one stage for one
/// microbatch.
struct StageParts {
  StepSeconds forward{};
  StepSeconds backward_input{};
  StepSeconds backward_weight{};
  double total(std::size_t part) const {
    return forward[part] + backward_input[part] + backward_weight[part];
  }
};

/// Returns the part of a training step to which a term of the cost formulas belongs.
StepPart part_of(const Term& term) {
  const ShownCollectives shown = shown_collectives({term});
  if (shown.gathered_s + shown.gathered_again_s + shown.scattered_s > 0) return StepPart::reduction;
  switch (term.kind) {
    case TermKind::gemm:
      return StepPart::products;
    case TermKind::attention:
      return StepPart::attention;
    case TermKind::memory:
    case TermKind::cast:
    case TermKind::accumulate:
      return StepPart::memory;
    case TermKind::collective:
      return StepPart::collectives;
    case TermKind::host:
      return StepPart::rest;
  }
  return StepPart::rest;
}

void add_terms(StageParts& parts, const std::vector<Term>& terms) {
  for (const Term& term : terms) {
    const std::size_t part = number_of(part_of(term));
    parts.forward[part] += term.forward;
    parts.backward_input[part] += term.backward_input;
    parts.backward_weight[part] += term.backward_weight;
  }
}

/// The terms of the cost formulas for each kind of layer. A model has two or three kinds.
class LayerTerms {
 public:
  LayerTerms(const Workload& work, const KernelTables& kernels) : work_(work), kernels_(kernels) {}
  const std::vector<Term>& of(const LayerKind& kind) {
    for (const auto& [known, terms] : known_) {
      if (known == kind) return terms;
    }
    return known_.emplace_back(kind, layer_terms(work_, kernels_, kind)).second;
  }

 private:
  const Workload& work_;
  const KernelTables& kernels_;
  std::vector<std::pair<LayerKind, std::vector<Term>>> known_;
};

/// Assigns the time of a pass that no term explains to StepPart::rest, so that the parts of the pass add up
/// to `total`.
void add_rest(StepSeconds& parts, double total) {
  double known = 0;
  for (const double part : parts) known += part;
  parts[number_of(StepPart::rest)] += total - known;
}

/// The prices of a run's stages (their times and bytes), and how each time is divided into parts.
struct PricedParts {
  std::vector<StagePrice> prices;
  std::vector<StageParts> parts;
  RankStep step;
};

PricedParts priced_parts(const DevicePrices& device, const Workload& work) {
  const KernelTables& kernels = *device.kernels;
  PricedParts priced;
  priced.prices = price_stages(work, kernels, device.layers, device.rank_of_stage);
  priced.step = longest_step(work, kernels, priced.prices, device.rank_of_stage);
  LayerTerms layer_terms(work, kernels);
  std::size_t layer = 0;
  for (std::size_t i = 0; i < priced.prices.size(); ++i) {
    StageParts& parts = priced.parts.emplace_back();
    const StagePrice& price = priced.prices[i];
    for (std::int64_t n = 0; n < device.layers[i]; ++n, ++layer)
      add_terms(parts, layer_terms.of(work.model.layers[layer]));
    if (i == 0) add_terms(parts, embedding_terms(work, kernels));
    if (i + 1 == priced.prices.size()) {
      for (std::int64_t n = 0; n < work.model.multi_token; ++n)
        add_terms(parts, multi_token_terms(work, kernels));
      add_terms(parts, head_terms(work, kernels));
      // The weight gradient of the head may be deferred to the end of the step. The deferred time is then not
      // a part of the backward pass.
      parts.backward_weight[number_of(StepPart::products)] -= price.deferred_s;
    }
    add_rest(parts.forward, price.forward_s);
    add_rest(parts.backward_input, price.backward_input_s);
    add_rest(parts.backward_weight, price.backward_weight_s);
  }
  return priced;
}

/// Divides the time that one rank computes in a step into the parts of a step (StepPart). `passes` is the
/// number of actions of a stage for one microbatch: 2 for F and B, or 3 for F, I and W.
StepSeconds work_of_rank(const PricedParts& priced, const DevicePrices& device, std::int32_t rank,
                         double passes) {
  const auto microbatches = static_cast<double>(device.microbatches);
  StepSeconds work{};
  for (std::size_t i = 0; i < priced.parts.size(); ++i) {
    if (device.rank_of_stage[i] != rank) continue;
    for (std::size_t part = 0; part < kStepParts; ++part)
      work[part] += microbatches * priced.parts[i].total(part);
    work[number_of(StepPart::products)] += microbatches * priced.prices[i].deferred_s;
    work[number_of(StepPart::rest)] += microbatches * passes * priced.prices[i].action_seconds;
  }
  work[number_of(StepPart::reduction)] += priced.step.reduction_s;
  work[number_of(StepPart::optimizer)] += priced.step.optimizer_s;
  work[number_of(StepPart::rest)] += priced.step.other_s;
  return work;
}

double sum_of(const StepSeconds& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

Ns change_of(double seconds, double factor) {
  return static_cast<Ns>(std::llround((factor - 1) * seconds / kSecondsPerNanosecond));
}

/// Returns costs in which one part of a step (StepPart) takes `factor` times as long.
CostTable scaled_costs(CostTable costs, const PricedParts& priced, const DevicePrices& device,
                       std::size_t part, double factor) {
  const double of_step = part == number_of(StepPart::reduction)   ? priced.step.reduction_s
                         : part == number_of(StepPart::optimizer) ? priced.step.optimizer_s
                                                                  : 0;
  for (std::size_t i = 0; i < costs.stages.size(); ++i) {
    const StageParts& parts = priced.parts[i];
    StageCost& cost = costs.stages[i];
    cost.forward_ns += change_of(parts.forward[part], factor);
    cost.recompute_ns = cost.forward_ns;
    const Ns input_ns = change_of(parts.backward_input[part], factor);
    const Ns weight_ns = change_of(parts.backward_weight[part], factor);
    cost.backward_input_ns += input_ns;
    cost.backward_weight_ns += weight_ns;
    cost.backward_ns += input_ns + weight_ns;
    const auto sharing = std::ranges::count(device.rank_of_stage, device.rank_of_stage[i]);
    cost.step_ns += change_of(of_step, factor) / sharing;
    if (part == number_of(StepPart::products)) {
      cost.step_ns +=
          change_of(priced.prices[i].deferred_s * static_cast<double>(device.microbatches), factor);
    }
  }
  return costs;
}

constexpr double kMostFactor = 8;

/// Returns the factor on a part of the step, from 0 to kMostFactor, at which `seconds_at` returns the
/// measured seconds. Returns nothing if there is no such factor.
template <typename SecondsAt>
std::optional<double> factor_at(const SecondsAt& seconds_at, double measured_seconds) {
  const auto error = [&](double factor) { return seconds_at(factor) - measured_seconds; };
  const double least = error(0);
  const double most = error(kMostFactor);
  if (least > 0 || most < 0) return std::nullopt;
  if (least == 0) return 0;
  if (most == 0) return kMostFactor;
  const auto is_close = [](double low, double high) { return high - low < 1e-4; };
  std::uintmax_t evaluations = 60;
  const auto [low, high] =
      boost::math::tools::toms748_solve(error, 0.0, kMostFactor, least, most, is_close, evaluations);
  return (low + high) / 2;
}

/// Returns true if a factor on this part changes only the part's own seconds, and not those of other parts.
bool is_additive(std::size_t part) {
  return part == number_of(StepPart::bubble) || part == number_of(StepPart::rest);
}

}  // namespace

StepSeconds step_parts(const RunPrices& prices, const DeviceConstants& constants) {
  const DevicePrices& device = prices.device_prices();
  const PricedParts priced = priced_parts(device, prices.workload(constants));
  StepSeconds longest{};
  for (const std::int32_t rank : device.rank_of_stage) {
    const StepSeconds work = work_of_rank(priced, device, rank, prices.splits_backward() ? 3 : 2);
    if (sum_of(work) > sum_of(longest)) longest = work;
  }
  const CostTable costs = prices.costs(constants);
  CostTable without_messages = costs;
  for (EdgeCost& edge : without_messages.edges) edge = {};
  const double step = prices.step_seconds(costs);
  const double without = prices.step_seconds(without_messages);
  const double busy = sum_of(longest);
  longest[number_of(StepPart::bubble)] += without - busy;
  longest[number_of(StepPart::rest)] += step - without;
  return longest;
}

StepFactors explaining_factors(const RunPrices& prices, const DeviceConstants& constants,
                               const StepSeconds& parts, double measured_seconds) {
  const DevicePrices& device = prices.device_prices();
  const PricedParts priced = priced_parts(device, prices.workload(constants));
  const CostTable costs = prices.costs(constants);
  const double predicted = prices.step_seconds(costs);
  StepFactors factors;
  for (std::size_t part = 0; part < kStepParts; ++part) {
    // A part that takes less than a ten-thousandth of a step cannot explain the error.
    if (parts[part] < 1e-4 * predicted) continue;
    factors[part] = factor_at(
        [&](double factor) {
          if (is_additive(part)) return predicted + (factor - 1) * parts[part];
          return prices.step_seconds(scaled_costs(costs, priced, device, part, factor));
        },
        measured_seconds);
  }
  return factors;
}

}  // namespace penstock
