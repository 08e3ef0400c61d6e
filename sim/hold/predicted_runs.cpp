// Predicts measured runs with fitted constants. Rows with the same source, framework, device and precision
// form a site. They were measured with the same clocks, kernels, collective library and method to reduce
// gradients, so they get the same constants. Rows with experts get the same constants only if their software
// release is also the same. Errors are grouped by source, device and model:
//
//     rows --RunPrices--> prices --constants of their site--> seconds, compared with the measured ones
//     rows of `fitted_on` --by site--> fit_constants --+
//
// Tests: tests/sim/measured_runs_test.cpp.

#include "sim/hold/predicted_runs.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <Eigen/Dense>
#include <boost/math/distributions/students_t.hpp>
#include <nlopt.hpp>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/evaluate.hpp"
#include "sim/hold/measured_runs.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/sweep/parallel_loop.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

bool has_experts(const MeasuredRun& run) {
  return std::get<DeviceModel>(run.scenario.model).work.model.experts.has_value();
}

/// The site of a run: its source, framework, device and precision. A run with experts has its software
/// release as well.
struct Site {
  std::string source;
  Framework framework = Framework::megatron_te;
  std::string device;
  std::string precision;
  bool experts = false;
  std::string release{};
  auto operator<=>(const Site&) const = default;
};
Site site_of(const MeasuredRun& run) {
  const bool experts = has_experts(run);
  return {.source = run.source,
          .framework = std::get<DeviceModel>(run.scenario.model).work.framework,
          .device = run.device,
          .precision = run.precision,
          .experts = experts,
          .release = experts ? run.release : ""};
}

/// Returns true if two rows are one measurement, that is, if their id, step time and model are equal. If the
/// fit used an equal row of another file, it used this measurement.
bool is_same(const MeasuredRun& a, const MeasuredRun& b) {
  return a.id == b.id && a.step_seconds == b.step_seconds && a.scenario.model == b.scenario.model;
}

std::vector<RunGroup> groups_of(const MeasuredRuns& runs, const std::vector<PredictedRun>& rows) {
  ErrorsByGroup groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    groups.add(fmt::format("{} {} {}", run.source, run.device, model_name(run.model)), rows[i].error);
  }
  return groups.groups();
}

}  // namespace

std::string class_of(const MeasuredRun& run) {
  const auto& model = std::get<DeviceModel>(run.scenario.model);
  const bool has_stages = run.scenario.shape.stages > 1;
  const bool is_near = model.devices <= model.work.device.nvlink_devices;
  if (model.work.model.experts) return has_stages ? "experts, pipeline" : "experts, no pipeline";
  const std::string place = is_near ? "one NVLink domain" : "network";
  if (run.scenario.shape.sharding.value_or(1) > 1) return "fully sharded, " + place;
  return has_stages ? "dense, pipeline" : "dense, no pipeline, " + place;
}

namespace {

std::vector<RunGroup> classes_of(const MeasuredRuns& runs, const std::vector<PredictedRun>& rows) {
  ErrorsByGroup classes;
  for (std::size_t i = 0; i < rows.size(); ++i) classes.add(class_of(runs.runs[i]), rows[i].error);
  std::vector<RunGroup> named = classes.groups();
  std::ranges::sort(named, {}, &RunGroup::name);
  return named;
}

}  // namespace

bool is_repeat(const MeasuredRun& a, const MeasuredRun& b) {
  return a.scenario.model == b.scenario.model && a.scenario.schedule == b.scenario.schedule &&
         a.scenario.shape == b.scenario.shape && a.scenario.batch == b.scenario.batch;
}

MeasuredJob job_of(const MeasuredRun& run) {
  const DeviceModel& model = std::get<DeviceModel>(run.scenario.model);
  const Batch& batch = run.scenario.batch;
  const std::int64_t samples =
      batch.micro_batch_size.value_or(1) * batch.microbatches.value_or(1) * model.copies.value_or(1);
  return {run.source,    run.model,           run.device, run.precision, model.work.model.layers.size(),
          model.devices, model.work.sequence, samples};
}

namespace {

/// The rows to which constants may be fitted, with their prices (times and bytes).
class FitRows {
 public:
  /// Takes all rows, or none if `rows` is null. Rows that repeat the measurement `without` are left out.
  explicit FitRows(const PricedRuns* rows, const MeasuredRun* without = nullptr)
      : rows_(rows), without_(without) {}

  /// Returns the rows of a site. If a site with experts has no rows, returns the rows of its release in other
  /// precisions. If there are none, returns the rows of all releases. The release matters more than the
  /// precision, because it decides about graphs, fused kernels and the gaps between kernels.
  std::vector<TimedRun> of(const Site& site) const {
    std::vector<TimedRun> rows = those([&](const Site& other) { return other == site; });
    if (!rows.empty() || !site.experts) return rows;
    rows = those(
        [&](Site other) {
          other.precision = site.precision;
          return other == site;
        },
        true);
    if (!rows.empty()) return rows;
    return those([&](Site other) {
      other.release = site.release;
      return other == site;
    });
  }

  /// Returns the rows of a site's release on other devices, in all precisions.
  std::vector<TimedRun> of_release_elsewhere(const Site& site) const {
    return those(
        [&](Site other) {
          const bool is_elsewhere = other.device != site.device;
          other.device = site.device;
          other.precision = site.precision;
          return is_elsewhere && other == site;
        },
        true);
  }

 private:
  /// Returns the rows of those sites that `is_wanted` accepts. If the rows are in another precision, they
  /// keep the sustained factors of their own devices.
  template <typename IsWanted>
  std::vector<TimedRun> those(const IsWanted& is_wanted, bool in_other_precision = false) const {
    std::vector<TimedRun> rows;
    for (std::size_t i = 0; rows_ != nullptr && i < rows_->prices.size(); ++i) {
      const MeasuredRun& run = rows_->runs->runs[i];
      if (without_ != nullptr && is_repeat(run, *without_)) continue;
      if (!is_wanted(site_of(run))) continue;
      TimedRun& row = rows.emplace_back();
      row.prices = &rows_->prices[i];
      row.measured_seconds = run.step_seconds;
      if (in_other_precision) row.sustained = own_constants(run.scenario).sustained;
    }
    return rows;
  }

  const PricedRuns* rows_;
  const MeasuredRun* without_;
};

std::vector<ConstantInterval> intervals_of(std::span<const TimedRun> runs, const FittedConstants& fit,
                                           double scatter);
/// Fits `expert_factor` alone, in the same way as fit_experts().
FittedConstants fit_expert_factor(std::span<const TimedRun> runs, const DeviceConstants& prior);

/// Returns the constants of one site. If the site has no rows, they are `own`, the constants of the device.
/// `scatter` is the parameter of predict_runs().
GroupConstants constants_of_site(const Site& site, const DeviceConstants& own, const FitRows& fit_rows,
                                 std::optional<double> scatter = std::nullopt) {
  const std::vector<TimedRun> rows = fit_rows.of(site);
  std::vector<TimedRun> dense;
  if (site.experts) {
    dense = fit_rows.of({.source = site.source,
                         .framework = site.framework,
                         .device = site.device,
                         .precision = site.precision});
  }
  FittedConstants fit{.constants = own, .fitted = {}};
  std::vector<ConstantInterval> intervals;
  if (!site.experts || !dense.empty()) {
    const std::vector<TimedRun>& first = site.experts ? dense : rows;
    fit = fit_constants(first, own);
    if (scatter) intervals = intervals_of(first, fit, *scatter);
  }
  std::size_t elsewhere = 0;
  const auto add = [&](FittedConstants more, const std::vector<TimedRun>& to) {
    if (scatter) std::ranges::move(intervals_of(to, more, *scatter), std::back_inserter(intervals));
    fit.constants = more.constants;
    std::ranges::move(more.fitted, std::back_inserter(fit.fitted));
    std::ranges::move(more.stopped, std::back_inserter(fit.stopped));
  };
  if (site.experts) {
    const FittedConstants with_experts = fit_experts(rows, fit.constants, dense.empty());
    add(with_experts, rows);
    // If all rows of the site wait for the host, they do not show how fast the kernels of the release are.
    const bool has_factor =
        std::ranges::find(with_experts.fitted, "expert_factor") != with_experts.fitted.end();
    if (!rows.empty() && !has_factor) {
      const std::vector<TimedRun> of_release = fit_rows.of_release_elsewhere(site);
      elsewhere = of_release.size();
      add(fit_expert_factor(of_release, fit.constants), of_release);
    }
  }
  return {.source = site.source,
          .framework = site.framework,
          .device = site.device,
          .precision = site.precision,
          .release = site.release,
          .constants = fit.constants,
          .rows = rows.size() + dense.size() + elsewhere,
          .fitted = std::move(fit.fitted),
          .stopped = std::move(fit.stopped),
          .intervals = std::move(intervals)};
}

/// Returns the constants of each site of `runs`.
std::map<Site, GroupConstants> constants_of(const MeasuredRuns& runs, const FitRows& fit_rows,
                                            std::optional<double> scatter) {
  std::map<Site, GroupConstants> constants;
  for (const MeasuredRun& run : runs.runs) {
    const Site site = site_of(run);
    if (!constants.contains(site))
      constants[site] = constants_of_site(site, own_constants(run.scenario), fit_rows, scatter);
  }
  return constants;
}

PredictedRun predicted(const MeasuredRun& run, const RunPrices& prices, const DeviceConstants& constants) {
  PredictedRun row{.id = run.id, .measured_seconds = run.step_seconds, .constants = constants};
  row.predicted_seconds = prices.step_seconds(constants);
  row.error = row.predicted_seconds / row.measured_seconds - 1;
  if (run.peak_gib) {
    row.measured_gib = run.peak_gib;
    row.predicted_gib = static_cast<double>(prices.peak_bytes()) / kBytesPerGibibyte;
    row.memory_error = *row.predicted_gib / *row.measured_gib - 1;
  }
  return row;
}

}  // namespace

tl::expected<PricedRuns, std::string> price_runs(const MeasuredRuns& runs,
                                                 const std::function<void()>& one_done) {
  // Several threads fill the elements.
  std::vector<std::optional<tl::expected<RunPrices, std::string>>> made(runs.runs.size());
  parallel_loop(made.size(), [&](std::size_t i) {
    made[i] = RunPrices::make(runs.runs[i].scenario);
    one_done();
  });
  PricedRuns priced{.runs = &runs};
  for (std::size_t i = 0; i < made.size(); ++i) {
    // The rows are examined in order. The returned error is therefore that of the first faulty row, and does
    // not depend on the threads.
    auto& one = made[i].value();
    if (!one) return tl::unexpected(fmt::format("{}: {}", runs.runs[i].id, one.error()));
    priced.prices.push_back(*std::move(one));
  }
  return priced;
}

tl::expected<RunsReport, std::string> predict_runs(
    const MeasuredRuns& runs, const MeasuredRuns* fitted_on,
    const std::function<void(std::size_t done, std::size_t all)>& progress) {
  // If `fitted_on` is `runs`, the prices of its rows are computed only once.
  const bool is_other = fitted_on != nullptr && fitted_on != &runs;
  const std::size_t all = runs.runs.size() + (is_other ? fitted_on->runs.size() : 0);
  std::atomic<std::size_t> done = 0;
  const auto one_done = [&] {
    const std::size_t now = ++done;
    if (progress) progress(now, all);
  };
  const auto priced = price_runs(runs, one_done);
  if (!priced) return tl::unexpected(priced.error());
  if (fitted_on == nullptr) return predict_runs(*priced, nullptr);
  if (!is_other) return predict_runs(*priced, &*priced);
  const auto fit_priced = price_runs(*fitted_on, one_done);
  if (!fit_priced) return tl::unexpected(fit_priced.error());
  return predict_runs(*priced, &*fit_priced);
}

RunsReport predict_runs(const PricedRuns& priced, const PricedRuns* fitted_on,
                        std::optional<double> scatter) {
  const MeasuredRuns& runs = *priced.runs;
  const std::map<Site, GroupConstants> constants = constants_of(runs, FitRows(fitted_on), scatter);
  RunsReport report;
  GroupErrors errors;
  GroupErrors memory_errors;
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    PredictedRun row = predicted(run, priced.prices[i], constants.at(site_of(run)).constants);
    row.fitted = fitted_on != nullptr &&
                 std::ranges::any_of(fitted_on->runs->runs,
                                     [&](const MeasuredRun& other) { return is_same(run, other); });
    errors.add(row.error);
    if (row.memory_error) memory_errors.add(*row.memory_error);
    report.rows.push_back(std::move(row));
  }
  report.groups = groups_of(runs, report.rows);
  report.classes = classes_of(runs, report.rows);
  report.left_out = runs.left_out;
  for (const auto& [site, of] : constants) report.constants.push_back(of);
  report.all = errors.named("all");
  if (!memory_errors.empty()) report.all_memory = memory_errors.named("memory");
  return report;
}

std::vector<LeftOutError> left_out_errors(const PricedRuns& runs) {
  std::vector<LeftOutError> errors(runs.prices.size());
  parallel_loop(errors.size(), [&](std::size_t i) {
    const MeasuredRun& run = runs.runs->runs[i];
    const GroupConstants fit =
        constants_of_site(site_of(run), own_constants(run.scenario), FitRows(&runs, &run));
    const double predicted = runs.prices[i].step_seconds(fit.constants);
    errors[i] = {.log_error = std::log(predicted / run.step_seconds), .rows = fit.rows};
  });
  return errors;
}

// Times one configuration for many candidate constants. The constants change durations but never the program,
// so the program is generated, lowered and compiled only once. For each candidate, the layers are priced, the
// cost table is filled and the tape is run:
//
//     scenario --make()--> program, tape, peak       constants --step_seconds()--> costs --tape--> makespan
//
// A step usually ends at the same time on all ranks, because an update needs the norm of all gradients. Its
// time is then the makespan. With zero-bubble schedules, the software of their authors updates without this
// norm, and takes the update back if the norm shows later that it was wrong (Qi et al., ICLR'24, section 4;
// --enable-optimizer-post-validation in their scripts). A rank then begins its next step as soon as its own
// work is done, and the time of a step is the time from one step to the next:
//
//     rank 0   1111111111222222222233..
//     rank 1     1111111111222222222233..
//     rank 2       1111111111222222222233..      step 10, makespan of one step 14

namespace {

constexpr double kSecondsPerMillisecond = 1e-3;
/// The number of overlapping steps after which each further step takes the same time.
constexpr std::int32_t kStepsUntilSteady = 4;

/// Returns the workload with other constants. The constant `sustained` is set only for the workload's
/// precision. For example, the head of a run in fp8 keeps the device's factor for bf16.
Workload with_constants(Workload work, const DeviceConstants& constants) {
  work.device.*sustained_of(work.precision) = constants.sustained;
  work.device.collectives = constants.collectives;
  work.device.step_fraction = constants.step_fraction;
  work.expert_factor = constants.expert_factor;
  // With CUDA graphs, the host needs no time to launch a layer.
  if (work.host_layer_seconds > 0) work.host_layer_seconds = constants.host_layer_ms * kSecondsPerMillisecond;
  work.action_seconds = constants.action_ms * kSecondsPerMillisecond;
  work.step_seconds = constants.step_ms * kSecondsPerMillisecond;
  return work;
}

bool has_split_backward(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& actions) {
    return std::ranges::any_of(
        actions, [](const Action& action) { return action.kind == ActionKind::backward_input; });
  });
}

/// Returns true if the framework updates weights before the norm of all gradients is known. The authors of
/// the zero-bubble schedules wrote them for Megatron-LM of that time.
bool updates_before_validation(const Workload& work, const Program& program) {
  return work.framework == Framework::megatron_2021 && has_split_backward(program);
}

}  // namespace

DeviceConstants own_constants(const Scenario& scenario) {
  const Workload& work = std::get<DeviceModel>(scenario.model).work;
  // A run with CUDA graphs keeps the constant for runs without them, because one site may have both.
  const double host_layer_s = work.host_layer_seconds > 0 ? work.host_layer_seconds : kHostLayerSeconds;
  return {.sustained = sustained_factor(work),
          .collectives = work.device.collectives,
          .step_fraction = work.device.step_fraction,
          .expert_factor = work.expert_factor,
          .host_layer_ms = work.model.experts ? host_layer_s / kSecondsPerMillisecond : 0,
          .action_ms = work.action_seconds / kSecondsPerMillisecond,
          .step_ms = work.step_seconds / kSecondsPerMillisecond};
}

tl::expected<RunPrices, std::string> RunPrices::make(const Scenario& scenario) {
  auto prices = price_on_devices(scenario);
  if (!prices) return tl::unexpected(prices.error());
  auto experiment = prepare(prices->settled.scenario);
  if (!experiment) return tl::unexpected(experiment.error().message);
  SimulateOptions options;
  options.steady = SteadyState::skip;
  const auto result = simulate(*experiment, options);
  if (!result) return tl::unexpected(result.error().message);
  RunPrices run;
  // The peak does not depend on the constants, so it is computed with the device's own ones.
  run.peak_bytes_ = highest_peak_bytes(*result);
  // compile() succeeds, because simulate() has shown that the program does not hang.
  const auto tape_of = [&](const Program& program, std::int32_t steps) {
    const FlatProgram flat =
        flatten(program, experiment->costs, {.channels = experiment->channels, .iterations = steps});
    return compile(flat, experiment->channels, microbatch_groups(experiment->costs)).value();
  };
  if (updates_before_validation(prices->work, experiment->program)) {
    Program overlapping = experiment->program;
    overlapping.barrier = false;
    run.earlier_steps_ = tape_of(overlapping, kStepsUntilSteady);
    run.tape_ = tape_of(overlapping, kStepsUntilSteady + 1);
  } else {
    run.tape_ = tape_of(experiment->program, experiment->program.iterations);
  }
  run.prices_ = *std::move(prices);
  run.experiment_ = *std::move(experiment);
  return run;
}

Workload RunPrices::workload(const DeviceConstants& constants) const {
  return with_constants(prices_.work, constants);
}

bool RunPrices::splits_backward() const { return has_split_backward(experiment_.program); }

CostTable RunPrices::costs(const DeviceConstants& constants) const {
  CostTable costs = experiment_.costs;
  set_times(costs, prices_, workload(constants));
  return costs;
}

double RunPrices::step_seconds(const CostTable& costs) const {
  Experiment experiment = experiment_;
  experiment.costs = costs;
  Ns step_ns = makespan_ns(tape_, tape_costs(tape_, experiment));
  if (earlier_steps_) step_ns -= makespan_ns(*earlier_steps_, tape_costs(*earlier_steps_, experiment));
  return static_cast<double>(step_ns) * kSecondsPerNanosecond;
}

double RunPrices::step_seconds(const DeviceConstants& constants) const {
  return step_seconds(costs(constants));
}

// Finds the constants with which predicted steps are closest to the measured ones.
//
// A constant should be fitted only if the measured runs determine it. The effect of a constant on a run is d
// log(predicted) / d log(constant), so its effects on all runs form a column of numbers. Constants are
// examined in the order of kConstants, which begins with `sustained`. For runs of models with experts, the
// order is expert_factor, host_layer, collectives. The columns of earlier constants explain a part of the new
// column, and the rest is the constant's own effect. A constant is fitted if this effect is larger than the
// scatter of measurements. Then BOBYQA (Powell, 2009; NLopt), which needs no derivatives, solves
//
//     minimise  sum over runs of log(predicted(constants) / measured)^2   within the bounds
//
// Tests: FitConstants in tests/sim/measured_runs_test.cpp.

namespace {

/// The smallest effect on a run that is more than an error of measurement. It is the effect of a 100 % change
/// of the constant, or of one `step`.
constexpr double kLeastEffect = 0.01;
struct Constant {
  const char* name;
  double DeviceConstants::* value;
  double least;
  double most;
  /// The absolute change with which the effect of a constant is measured. A constant that may be 0 needs it.
  /// If `step` is 0, the change is relative (kNudge).
  double step = 0;
  double least_effect = kLeastEffect;
};
constexpr Constant kCollectives{
    .name = "collectives", .value = &DeviceConstants::collectives, .least = 1, .most = 2.2};
constexpr std::array<Constant, 5> kConstants = {{
    {.name = "sustained", .value = &DeviceConstants::sustained, .least = 0.9, .most = 1.6},
    kCollectives,
    {.name = "step_fraction", .value = &DeviceConstants::step_fraction, .least = 0, .most = 0.35},
    // The time of an action is visible only in rows that do equal work with different numbers of actions.
    {.name = "action_overhead",
     .value = &DeviceConstants::action_ms,
     .least = 0,
     .most = 3,
     .least_effect = 3 * kLeastEffect},
    {.name = "step_overhead", .value = &DeviceConstants::step_ms, .least = 0, .most = 200, .step = 10},
}};
// Some matrix products reach 0.8 of the peak. With a factor below 0.8, they would exceed the peak.
constexpr Constant kExpertFactor{
    .name = "expert_factor", .value = &DeviceConstants::expert_factor, .least = 0.8, .most = 2};
constexpr Constant kHostLayer{
    .name = "host_layer", .value = &DeviceConstants::host_layer_ms, .least = 1, .most = 30};
/// The relative change with which the effect of a constant is measured. It is small compared with the
/// bounds, but much larger than the rounding of a step to nanoseconds.
constexpr double kNudge = 0.05;
/// Relative tolerance of the constants. They are printed with four digits.
constexpr double kTolerance = 1e-6;
constexpr int kMostEvaluations = 200;
/// The distance from a bound within which a fitted value counts as lying on this bound. It is a part of the
/// distance between the two bounds.
constexpr double kNearBound = 1e-3;

/// A vector with one entry for each run.
using Column = std::vector<double>;

/// Returns the effect of a constant on each run, d log(predicted) / d log(constant). If the constant has a
/// `step`, returns the change of log(predicted) for one step.
Column effect_of(std::span<const TimedRun> runs, const DeviceConstants& prior, const Constant& constant) {
  DeviceConstants nudged = prior;
  // If the prior is 0 and the constant has no step, the change is 0. The constant then has no effect and is
  // not fitted.
  nudged.*constant.value =
      constant.step > 0 ? prior.*constant.value + constant.step : prior.*constant.value * (1 + kNudge);
  const double change = constant.step > 0 ? 1 : std::log1p(kNudge);
  Column column;
  for (const TimedRun& run : runs) {
    column.push_back(std::log(run.step_seconds(nudged) / run.step_seconds(prior)) / change);
  }
  return column;
}

double product(const Column& a, const Column& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Returns the part of a column that is orthogonal to the given orthonormal columns.
Column beside(Column column, const std::vector<Column>& basis) {
  for (const Column& unit : basis) {
    const double part = product(column, unit);
    for (std::size_t i = 0; i < column.size(); ++i) column[i] -= part * unit[i];
  }
  return column;
}

/// Returns the constants whose effects the runs can separate, by the Gram-Schmidt method. From each column,
/// the parts in the directions of earlier columns are subtracted. For example, if `sustained` and
/// `collectives` have the same effect on all runs, `collectives` is not fitted.
std::vector<Constant> identifiable_constants(std::span<const TimedRun> runs, const DeviceConstants& prior,
                                             std::span<const Constant> candidates) {
  std::vector<Constant> identifiable;
  std::vector<Column> basis;
  for (const Constant& constant : candidates) {
    Column column = beside(effect_of(runs, prior, constant), basis);
    const double length = std::sqrt(product(column, column));
    // `least_effect` is the effect on one run. The length of a column grows with the square root of the
    // number of runs.
    if (length < constant.least_effect * std::sqrt(static_cast<double>(runs.size()))) continue;
    for (double& entry : column) entry /= length;
    basis.push_back(std::move(column));
    identifiable.push_back(constant);
  }
  return identifiable;
}

DeviceConstants with_values(DeviceConstants constants, const std::vector<Constant>& fitted,
                            const std::vector<double>& values) {
  for (std::size_t i = 0; i < fitted.size(); ++i) constants.*fitted[i].value = values[i];
  return constants;
}

double squares(std::span<const TimedRun> runs, const DeviceConstants& constants) {
  double sum = 0;
  for (const TimedRun& run : runs) {
    const double error = std::log(run.step_seconds(constants) / run.measured_seconds);
    sum += error * error;
  }
  return sum;
}

FittedConstants fitted_constants(std::span<const TimedRun> runs, const DeviceConstants& prior,
                                 std::span<const Constant> candidates) {
  FittedConstants fit{.constants = prior, .fitted = {}};
  if (runs.empty()) return fit;
  const std::vector<Constant> identifiable = identifiable_constants(runs, prior, candidates);
  if (identifiable.empty()) return fit;
  nlopt::opt search(nlopt::LN_BOBYQA, static_cast<unsigned>(identifiable.size()));
  std::vector<double> values;
  std::vector<double> least;
  std::vector<double> most;
  for (const Constant& constant : identifiable) {
    fit.fitted.emplace_back(constant.name);
    least.push_back(constant.least);
    most.push_back(constant.most);
    // NLopt requires a start within the bounds.
    values.push_back(std::clamp(prior.*constant.value, constant.least, constant.most));
  }
  search.set_lower_bounds(least);
  search.set_upper_bounds(most);
  search.set_xtol_rel(kTolerance);
  search.set_maxeval(kMostEvaluations);
  // NLopt takes a C function and a pointer to its data, so a lambda with captures cannot be used.
  struct Question {
    std::span<const TimedRun> runs;
    const DeviceConstants& prior;
    const std::vector<Constant>& identifiable;
  } question{.runs = runs, .prior = prior, .identifiable = identifiable};
  search.set_min_objective(
      [](const std::vector<double>& at, std::vector<double>& /*gradient*/, void* asked) {
        const auto& of = *static_cast<const Question*>(asked);
        return squares(of.runs, with_values(of.prior, of.identifiable, at));
      },
      &question);
  double error = 0;
  try {
    search.optimize(values, error);
    // NOLINTNEXTLINE(bugprone-empty-catch)
  } catch (const nlopt::roundoff_limited&) {
    // The step times are rounded to nanoseconds, so the search may stop before its tolerance. The values are
    // the best that it has found.
  }
  fit.constants = with_values(prior, identifiable, values);
  for (std::size_t i = 0; i < identifiable.size(); ++i) {
    const Constant& constant = identifiable[i];
    const double near = kNearBound * (constant.most - constant.least);
    // A bound of 0 is not a limit of the fit, because no cost can be negative.
    const bool is_least = constant.least > 0 && values[i] <= constant.least + near;
    if (is_least || values[i] >= constant.most - near) fit.stopped.emplace_back(constant.name);
  }
  return fit;
}

FittedConstants fit_expert_factor(std::span<const TimedRun> runs, const DeviceConstants& prior) {
  return fitted_constants(runs, prior, std::span(&kExpertFactor, 1));
}

// The interval of a fitted constant follows from the linear model of the fit at its solution. Let J have a
// row for each run and a column with d log(predicted) / d constant for each of the p fitted constants. Then
//
//     covariance = s^2 (J' J)^-1        s^2 = (sum of squared errors + 4 scatter^2) / (runs - p + 4)
//
// A few runs do not show how far errors scatter, and a fit to p runs has no error at all. So the usual
// scatter is added, with the weight of four more runs.

constexpr double kPriorRuns = 4;
/// The relative change of a constant for which an effect is almost linear.
constexpr double kSmallChange = 0.01;
constexpr double kProbability = 0.95;

std::vector<ConstantInterval> intervals_of(std::span<const TimedRun> runs, const FittedConstants& fit,
                                           double scatter) {
  std::vector<Constant> known(kConstants.begin(), kConstants.end());
  known.push_back(kExpertFactor);
  known.push_back(kHostLayer);
  std::vector<Constant> fitted;
  for (const Constant& constant : known) {
    if (std::ranges::find(fit.fitted, constant.name) != fit.fitted.end()) fitted.push_back(constant);
  }
  if (fitted.empty()) return {};
  Eigen::MatrixXd effects(std::ssize(runs), std::ssize(fitted));
  for (std::size_t j = 0; j < fitted.size(); ++j) {
    const Constant& constant = fitted[j];
    // The change is at least a part of the distance between the bounds, because the fit may have set the
    // constant to 0.
    const double change =
        kSmallChange * std::max(std::abs(fit.constants.*constant.value), constant.most - constant.least);
    DeviceConstants more = fit.constants;
    more.*constant.value += change;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const double effect = std::log(runs[i].step_seconds(more) / runs[i].step_seconds(fit.constants));
      effects(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = effect / change;
    }
  }
  const double freedom = static_cast<double>(runs.size()) - static_cast<double>(fitted.size()) + kPriorRuns;
  const double variance = (squares(runs, fit.constants) + kPriorRuns * scatter * scatter) / freedom;
  const Eigen::MatrixXd covariance = variance * (effects.transpose() * effects).inverse();
  const boost::math::students_t distribution(freedom);
  const double quantile = boost::math::quantile(distribution, (1 + kProbability) / 2);
  std::vector<ConstantInterval> intervals;
  for (std::size_t j = 0; j < fitted.size(); ++j) {
    const auto at = static_cast<Eigen::Index>(j);
    const double half = quantile * std::sqrt(covariance(at, at));
    const double value = fit.constants.*fitted[j].value;
    intervals.push_back({.name = fitted[j].name,
                         .value = value,
                         .low = std::max(fitted[j].least, value - half),
                         .high = std::min(fitted[j].most, value + half)});
  }
  return intervals;
}

}  // namespace

FittedConstants fit_constants(std::span<const TimedRun> runs, const DeviceConstants& prior) {
  return fitted_constants(runs, prior, kConstants);
}

FittedConstants fit_experts(std::span<const TimedRun> runs, const DeviceConstants& prior,
                            bool with_collectives) {
  const std::array candidates = {kExpertFactor, kHostLayer, kCollectives};
  return fitted_constants(runs, prior, std::span(candidates).first(with_collectives ? 3 : 2));
}

}  // namespace penstock
