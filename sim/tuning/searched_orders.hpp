#pragma once
// Figures of configurations whose schedules search their order for what their stages cost.

#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/program_library.hpp"

namespace penstock {

/// As simulate() says them.
struct SearchedFigures {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;
  std::vector<std::string> notes;  ///< of the configuration that was simulated
};

/// Why a configuration cannot run in the order that was found.
struct SearchedError {
  std::string message;
  bool hangs = false;
};

class SearchedOrders {
 public:
  /// The request must outlive it. Nobody waits for a search once `stopped`, if there is one, is true.
  SearchedOrders(const TuneRequest& request, std::function<bool()> stopped)
      : request_(request), stopped_(std::move(stopped)) {}

  /// Of a configuration with its prices. One whose program costs the same has been searched for it. Nothing
  /// where the search was stopped. Error: that of simulate_scenario().
  tl::expected<std::optional<SearchedFigures>, SearchedError> of(const Configuration& configuration,
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
