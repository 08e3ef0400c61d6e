// Simulates configurations whose schedule searches its order. The order depends only on the schedule, p, v, M
// and the costs of stages and links. Configurations with equal costs share a search, even if they differ in
// other ways, for example in a recomputation of nothing. Tests: tests/sim/searched_orders_test.cpp.

#include "sim/tuning/searched_orders.hpp"

#include <algorithm>
#include <optional>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "schedules/check/user_error.hpp"
#include "sim/runs/plan_run.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"
#include "sim/tuning/stoppable_work.hpp"

namespace penstock {

tl::expected<std::optional<SearchedFigures>, UserError> SearchedOrders::of(
    const Configuration& configuration, const PricedConfiguration& priced) {
  // Only few are searched (TuneOptions::refined for one question), so a linear search is enough.
  const ProgramLibrary::Key key = ProgramLibrary::key_of(configuration);
  const auto known = std::ranges::find_if(
      searched_, [&](const Searched& one) { return one.key == key && one.priced == priced; });
  if (known != searched_.end()) return known->figures;
  const SimulateOptions options{.memory = {.samples = false},
                                .steady = SteadyState::skip,
                                .timeline = TimelineKept::none,
                                .figures = WantedFigures::of_rows};
  const TuneRequest request = with_layers(request_, configuration, priced.layers);
  const auto searched = done_unless(stopped_, [scenario = scenario_of(request, configuration), options] {
    return simulate_scenario(scenario, options);
  });
  if (!searched) return std::nullopt;
  if (!*searched) return tl::unexpected(searched->error());
  const Result& result = **searched;
  searched_.push_back(
      {.key = key,
       .priced = priced,
       .figures = {
           .step_ns = result.makespan_ns, .peak_bytes = highest_peak_bytes(result), .notes = result.notes}});
  return searched_.back().figures;
}

}  // namespace penstock
