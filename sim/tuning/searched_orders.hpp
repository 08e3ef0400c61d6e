#pragma once
// Figures of configurations whose schedules search their order for what their stages cost.

#include <string>
#include <tl/expected.hpp>
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

class SearchedOrders {
 public:
  /// The request must outlive it.
  explicit SearchedOrders(const TuneRequest& request) : request_(request) {}

  /// Of a configuration with its prices. One whose program costs the same has been searched for it. Error:
  /// that of simulate_scenario().
  tl::expected<SearchedFigures, std::string> of(const Configuration& configuration,
                                                const PricedConfiguration& priced);

 private:
  struct Searched {
    ProgramLibrary::Key key;
    PricedConfiguration priced;
    SearchedFigures figures;
  };

  const TuneRequest& request_;
  std::vector<Searched> searched_;
};

}  // namespace penstock
