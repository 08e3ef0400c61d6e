// A constant that is wrong by a factor of two would move the answer by no more than this table says. Each row
// is a search of its own.

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
#include "schedules/ir/action.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/tune.hpp"
#include "topology/device_types.hpp"

namespace penstock {
namespace {

/// Multiplies one figure of a device.
using Change = void (*)(DeviceType&, double factor);

/// `sustained` and `collectives` multiply times: a rate divides them.
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

/// What the configuration takes on the request's machine; nothing where it does not fit.
tl::expected<std::optional<Ns>, std::string> step_there(const TuneRequest& request,
                                                        const Configuration& configuration) {
  SimulateOptions options;
  options.steady = SteadyState::skip;
  const auto result = simulate_scenario(scenario_of(request, configuration), options);
  if (!result) return tl::unexpected(result.error().message);
  return any_out_of_memory(*result) ? std::nullopt : std::optional(result->makespan_ns);
}

/// Searches anew on the machine with the figure changed, and times the old best there.
tl::expected<SensitivityRow, std::string> row_of(TuneRequest request, const TunedConfiguration& best,
                                                 const std::pair<std::string_view, Change>& figure,
                                                 double factor) {
  figure.second(std::get<DeviceModel>(request.base.model).work.device, factor);
  const auto report = tune(request, {.top = 1, .refined = 1});
  if (!report) return tl::unexpected(report.error());
  SensitivityRow row{.figure = figure.first, .factor = factor, .best = report->candidates.front()};
  const auto step_ns = step_there(request, best.configuration);
  if (!step_ns) return tl::unexpected(step_ns.error());
  // All train the same batch, so that rates of a device are as the inverse of these.
  const auto device_time = [](Ns step, const Configuration& of) {
    return static_cast<double>(step) * static_cast<double>(device_count(of));
  };
  if (*step_ns && row.best.fits) {
    row.loss =
        device_time(row.best.step_ns, row.best.configuration) / device_time(**step_ns, best.configuration) -
        1;
  }
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

}  // namespace penstock
