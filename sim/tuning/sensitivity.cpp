// Searches again for machines with one figure changed. If a constant of the device is wrong by a factor of
// two, the answer changes by no more than this table shows. Each row is a search. Tests:
// tests/sim/searched_orders_test.cpp.

#include "sim/tuning/sensitivity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "scenarios/model/device_model.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"
#include "topology/device_types.hpp"

namespace penstock {
namespace {

/// A function that multiplies one figure of a device.
using Change = void (*)(DeviceType&, double factor);

/// `sustained` and `collectives` multiply times, so a factor of the rate divides them.
constexpr std::array<std::pair<std::string_view, Change>, 4> kFigures = {
    {{"memory",
      [](DeviceType& device, double factor) {
        device.memory_bytes =
            static_cast<std::int64_t>(std::llround(static_cast<double>(device.memory_bytes) * factor));
      }},
     {"sustained rate",
      [](DeviceType& device, double factor) {
        device.sustained /= factor;
        device.sustained_fp4 /= factor;
      }},
     {"network bandwidth",
      [](DeviceType& device, double factor) { device.network_bytes_per_second *= factor; }},
     {"rate of collectives", [](DeviceType& device, double factor) { device.collectives /= factor; }}}};
constexpr std::array kHalfAndDouble = {0.5, 2.0};

/// Returns the tuned configuration as simulate() predicts it on the request's machine, with the same layers.
tl::expected<TunedConfiguration, std::string> tuned_there(const TuneRequest& request,
                                                          const TunedConfiguration& tuned) {
  const Configuration& configuration = tuned.configuration;
  SimulateOptions options;
  options.steady = SteadyState::skip;
  const auto result = simulate_scenario(
      scenario_of(with_layers(request, configuration, tuned.layers), configuration), options);
  if (!result) return tl::unexpected(result.error().message);
  auto there = tuned_configuration(request, configuration, result->makespan_ns, highest_peak_bytes(*result));
  there.layers = tuned.layers;
  return there;
}

/// Returns the time of a step times the number of devices. All configurations train the same batch, so this
/// is inverse to tokens per second and device. Unlike rates it is exact, so equal configurations have a loss
/// of exactly 0.
std::int64_t device_time(const TunedConfiguration& tuned) {
  return tuned.step_ns * device_count(tuned.configuration);
}

/// Compares like the order of candidates: configurations that fit come first, then the fastest.
bool is_better(const TunedConfiguration& one, const TunedConfiguration& other) {
  if (one.fits != other.fits) return one.fits;
  return device_time(one) < device_time(other);
}

/// Searches on the machine with the figure changed, and times the old best configuration there. The old best
/// may have a searched order that the new search does not examine.
tl::expected<SensitivityRow, std::string> row_of(TuneRequest request, const TunedConfiguration& best,
                                                 const std::pair<std::string_view, Change>& figure,
                                                 double factor) {
  figure.second(std::get<DeviceModel>(request.base.model).work.device, factor);
  // The search examines as many orders as the search that found `best`.
  const auto report = tune(request, {.top = 1});
  if (!report) return tl::unexpected(report.error().message);
  const auto old = tuned_there(request, best);
  if (!old) return tl::unexpected(old.error());
  const TunedConfiguration& found = report->candidates.front();
  SensitivityRow row{.figure = figure.first, .factor = factor, .best = is_better(*old, found) ? *old : found};
  if (old->fits)
    row.loss = static_cast<double>(device_time(row.best)) / static_cast<double>(device_time(*old)) - 1;
  return row;
}

}  // namespace

tl::expected<std::vector<SensitivityRow>, std::string> sensitivity(const TuneRequest& request,
                                                                   const TunedConfiguration& best) {
  std::vector<SensitivityRow> rows;
  for (const auto& figure : kFigures) {
    for (const double factor : kHalfAndDouble) {
      auto row = row_of(request, best, figure, factor);
      if (!row) return tl::unexpected(row.error());
      rows.push_back(*std::move(row));
    }
  }
  return rows;
}

tl::expected<std::optional<TensorOverlapWorth>, std::string> tensor_overlap_worth(
    const TuneRequest& request, const TunedConfiguration& best) {
  if (best.configuration.tensor == 1 || !model_of(request).work.parallel.tensor_overlap) return std::nullopt;
  TuneRequest without = request;
  std::get<DeviceModel>(without.base.model).work.parallel.tensor_overlap = false;
  const auto same = tuned_there(without, best);
  if (!same) return tl::unexpected(same.error());
  const auto report = tune(without, {.top = 1});
  if (!report) return tl::unexpected(report.error().message);
  const TunedConfiguration& found = report->candidates.front();
  // The best configuration may have a searched order that the new search does not examine.
  return TensorOverlapWorth{.same = *same, .best = is_better(*same, found) ? *same : found};
}

}  // namespace penstock
