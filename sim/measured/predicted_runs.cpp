// Predicts measured runs. Rows of one source, device and precision share constants, because they share
// clocks, a collective library and a way to reduce gradients. Rows with experts share them within a release.
// Errors are reported by source, device and model:
//
//     rows --RunPrices--> prices --constants of their site--> seconds, compared with the measured ones
//     rows of `fitted_on` --by site--> fit_constants --+
//
// Tests: tests/sim/measured_runs_test.cpp.

#include "sim/measured/predicted_runs.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/device_model.hpp"
#include "sim/engines/parallel_loop.hpp"
#include "sim/measured/fit_constants.hpp"
#include "sim/measured/group_errors.hpp"
#include "sim/measured/measured_runs.hpp"
#include "sim/measured/run_prices.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

bool has_experts(const MeasuredRun& run) {
  return std::get<DeviceModel>(run.scenario.model).work.model.experts.has_value();
}

/// The source, device and precision of a run. A run with experts has its release as well.
struct Site {
  std::string source;
  std::string device;
  std::string precision;
  bool experts = false;
  std::string release{};
  auto operator<=>(const Site&) const = default;
};
Site site_of(const MeasuredRun& run) {
  const bool experts = has_experts(run);
  return {.source = run.source,
          .device = run.device,
          .precision = run.precision,
          .experts = experts,
          .release = experts ? run.release : ""};
}

/// The prices of each row. Threads fill the elements in any order.
using AllPrices = std::vector<std::optional<tl::expected<RunPrices, std::string>>>;

tl::expected<std::vector<RunPrices>, std::string> priced(const MeasuredRuns& runs,
                                                         const std::function<void()>& one_done) {
  AllPrices made(runs.runs.size());
  parallel_loop(made.size(), [&](std::size_t i) {
    made[i] = RunPrices::make(runs.runs[i].scenario);
    one_done();
  });
  std::vector<RunPrices> prices;
  for (std::size_t i = 0; i < made.size(); ++i) {
    // The rows are examined in order, so that the error of the first faulty row is returned, whichever thread
    // ended first.
    auto& one = made[i].value();
    if (!one) return tl::unexpected(fmt::format("{}: {}", runs.runs[i].id, one.error()));
    prices.push_back(*std::move(one));
  }
  return prices;
}

/// Returns whether two rows are one measurement. Two files may hold the same configuration with the same id
/// and step; then it was fitted on itself.
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

/// Returns the class of a run. Rows of one class are predicted through the same terms.
std::string class_of(const MeasuredRun& run) {
  const auto& model = std::get<DeviceModel>(run.scenario.model);
  const bool has_stages = run.scenario.shape.stages > 1;
  const bool is_near = model.devices <= model.work.device.nvlink_devices;
  if (model.work.model.experts) return has_stages ? "experts, pipeline" : "experts, no pipeline";
  const std::string place = is_near ? "one NVLink domain" : "network";
  if (run.scenario.shape.sharding.value_or(1) > 1) return "fully sharded, " + place;
  return has_stages ? "dense, pipeline" : "dense, no pipeline, " + place;
}

std::vector<RunGroup> classes_of(const MeasuredRuns& runs, const std::vector<PredictedRun>& rows) {
  ErrorsByGroup classes;
  for (std::size_t i = 0; i < rows.size(); ++i) classes.add(class_of(runs.runs[i]), rows[i].error);
  std::vector<RunGroup> named = classes.groups();
  std::ranges::sort(named, {}, &RunGroup::name);
  return named;
}

/// The rows on which constants may be fitted, with their prices.
class FitRows {
 public:
  FitRows(const MeasuredRuns* runs, const std::vector<RunPrices>& prices) : runs_(runs), prices_(prices) {}

  /// Returns the rows of a site. With experts and no row of the release, it returns those of all releases.
  std::vector<TimedRun> of(const Site& site) const {
    std::vector<TimedRun> rows = those([&](const Site& other) { return other == site; });
    if (!rows.empty() || !site.experts) return rows;
    return those([&](Site other) {
      other.release = site.release;
      return other == site;
    });
  }

 private:
  template <typename IsWanted>
  std::vector<TimedRun> those(const IsWanted& is_wanted) const {
    std::vector<TimedRun> rows;
    for (std::size_t i = 0; runs_ != nullptr && i < runs_->runs.size(); ++i) {
      if (is_wanted(site_of(runs_->runs[i])))
        rows.push_back({.prices = &prices_[i], .measured_seconds = runs_->runs[i].step_seconds});
    }
    return rows;
  }

  const MeasuredRuns* runs_;
  const std::vector<RunPrices>& prices_;
};

/// Returns the constants of one site. Without rows they are `own`, the device's.
GroupConstants constants_of_site(const Site& site, const DeviceConstants& own, const FitRows& fit_rows) {
  const std::vector<TimedRun> rows = fit_rows.of(site);
  std::vector<TimedRun> dense;
  if (site.experts)
    dense = fit_rows.of({.source = site.source, .device = site.device, .precision = site.precision});
  FittedConstants fit = fit_constants(dense.empty() ? rows : dense, own);
  if (!dense.empty()) {
    FittedConstants with_experts = fit_expert_layer(rows, fit.constants);
    fit.constants = with_experts.constants;
    std::ranges::move(with_experts.fitted, std::back_inserter(fit.fitted));
  }
  return {.source = site.source,
          .device = site.device,
          .precision = site.precision,
          .release = site.release,
          .constants = fit.constants,
          .rows = rows.size() + dense.size(),
          .fitted = std::move(fit.fitted)};
}

/// Returns the constants of each site of `runs`.
std::map<Site, GroupConstants> constants_of(const MeasuredRuns& runs, const FitRows& fit_rows) {
  std::map<Site, GroupConstants> constants;
  for (const MeasuredRun& run : runs.runs) {
    const Site site = site_of(run);
    if (!constants.contains(site))
      constants[site] = constants_of_site(site, own_constants(run.scenario), fit_rows);
  }
  return constants;
}

PredictedRun predicted(const MeasuredRun& run, const RunPrices& prices, const DeviceConstants& constants) {
  PredictedRun row{.id = run.id, .measured_seconds = run.step_seconds};
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

tl::expected<RunsReport, std::string> predict_runs(
    const MeasuredRuns& runs, const MeasuredRuns* fitted_on,
    const std::function<void(std::size_t done, std::size_t all)>& progress) {
  // If `fitted_on` is `runs`, its rows are priced only once.
  const bool is_other = fitted_on != nullptr && fitted_on != &runs;
  const std::size_t all = runs.runs.size() + (is_other ? fitted_on->runs.size() : 0);
  std::atomic<std::size_t> done = 0;
  const auto one_done = [&] {
    const std::size_t now = ++done;
    if (progress) progress(now, all);
  };
  const auto prices = priced(runs, one_done);
  if (!prices) return tl::unexpected(prices.error());
  std::vector<RunPrices> fit_prices;
  if (is_other) {
    auto made = priced(*fitted_on, one_done);
    if (!made) return tl::unexpected(made.error());
    fit_prices = *std::move(made);
  }
  const std::map<Site, GroupConstants> constants =
      constants_of(runs, FitRows(fitted_on, is_other ? fit_prices : *prices));
  RunsReport report;
  GroupErrors errors;
  GroupErrors memory_errors;
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const MeasuredRun& run = runs.runs[i];
    PredictedRun row = predicted(run, (*prices)[i], constants.at(site_of(run)).constants);
    row.fitted = fitted_on != nullptr && std::ranges::any_of(fitted_on->runs, [&](const MeasuredRun& other) {
                   return is_same(run, other);
                 });
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

}  // namespace penstock
