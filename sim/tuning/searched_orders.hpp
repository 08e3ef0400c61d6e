#pragma once
// Figures of configurations whose schedules search an order for the costs of their stages.

#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"

namespace penstock {

/// The figures that simulate() returns.
struct SearchedFigures {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;
  std::vector<std::string> notes;  ///< notes about the simulated configuration
};

class SearchedOrders {
 public:
  /// Keeps a reference to the request, which must outlive this object. A search is abandoned when `stopped`
  /// is given and becomes true.
  SearchedOrders(const TuneRequest& request, std::function<bool()> stopped)
      : request_(request), stopped_(std::move(stopped)) {}

  /// Returns the figures of a configuration with its prices. If a program with the same costs was searched
  /// before, its figures are returned. Returns nothing if the search was stopped. Error: that of
  /// simulate_scenario().
  tl::expected<std::optional<SearchedFigures>, UserError> of(const Configuration& configuration,
                                                             const PricedConfiguration& priced);

 private:
  struct Searched {
    ProgramLibrary::Key key;
    PricedConfiguration priced;
    SearchedFigures figures;
  };

  const TuneRequest& request_;
  std::function<bool()> stopped_;
  std::vector<Searched> searched_;
};

}  // namespace penstock
