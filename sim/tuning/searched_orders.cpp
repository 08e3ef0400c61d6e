// An order is a function of schedule, p, v, M and of what stages and links cost; how it came to these (no
// recomputation, or a selective one of nothing) does not matter.

#include "sim/tuning/searched_orders.hpp"

#include <algorithm>
#include <optional>

#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "sim/runs/simulate.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"
#include "sim/tuning/stoppable_work.hpp"

namespace penstock {

tl::expected<std::optional<SearchedFigures>, SearchedError> SearchedOrders::of(
    const Configuration& configuration, const PricedConfiguration& priced) {
  // Few are ever searched (TuneOptions::refined of one question), so that each is held against all.
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
  if (!*searched) {
    const SimulateError& error = searched->error();
    return tl::unexpected(SearchedError{.message = error.message, .hangs = error.hang.has_value()});
  }
  const Result& result = **searched;
  searched_.push_back(
      {.key = key,
       .priced = priced,
       .figures = {
           .step_ns = result.makespan_ns, .peak_bytes = highest_peak_bytes(result), .notes = result.notes}});
  return searched_.back().figures;
}

}  // namespace penstock
