#pragma once
// Computes the times and peaks of configurations. ProgramLibrary caches their programs. It makes outlines
// early, but generates and compiles a program only when its times are first needed. The tape runs several
// configurations with the same program at once. If the schedule searches its order, the configuration is
// simulated instead.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "scenarios/prepare/schedule_outline.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/configuration_prices.hpp"
#include "sim/engines/compile.hpp"

namespace penstock {

/// A compiled program, which runs with any costs and on any links.
struct TunedProgram {
  Program program;  ///< only compute actions, unless `is_lowered`
  bool is_lowered = false;
  ChannelOptions channels;
  TurnTape turns;  ///< if `is_lowered`, only `turns.tape` is filled in
};

/// Caches programs by schedule, stages, virtual stages and microbatches. If a schedule searches its order,
/// the cached program has the order for stages of equal cost.
class ProgramLibrary {
 public:
  explicit ProgramLibrary(TuneRequest request) : request_(std::move(request)) {}

  /// Returns the outline of the configuration's program. Must not be called from two threads at once. Error:
  /// the schedule refuses the configuration because of an option of the scenario.
  tl::expected<const ScheduleOutline*, std::string> outline(const Configuration& configuration);

  /// Returns the configuration's program. May be called from any thread. Programs that were not used for a
  /// long time are removed, and generated again when needed. Error: the program hangs with the scenario's
  /// channels.
  tl::expected<std::shared_ptr<const TunedProgram>, std::string> program(const Configuration& configuration);

  /// The schedule, stages, virtual stages and microbatches of a program.
  using Key = std::tuple<std::string_view, std::int32_t, std::int32_t, std::int32_t>;
  static Key key_of(const Configuration& configuration) {
    return {configuration.schedule, configuration.stages, configuration.virtual_stages,
            configuration.microbatches};
  }

 private:
  struct Cached {
    Key key;
    std::shared_ptr<const TunedProgram> program;
  };
  std::shared_ptr<const TunedProgram> found(const Key& key);
  void store(const Key& key, const std::shared_ptr<const TunedProgram>& program);

  TuneRequest request_;
  std::map<Key, ScheduleOutline> outlines_;
  std::mutex mutex_;
  std::list<Cached> cached_;  // the most recently used program is first
  std::size_t instructions_ = 0;
};

/// Returns the step time of each configuration, which equals that of simulate(). All configurations must have
/// the program `tuned`.
std::vector<Ns> step_times(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

/// Returns for each configuration the peak of its fullest rank, which equals that of simulate().
std::vector<Bytes> peak_bytes(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

// A configuration for figures_of_all(), with its costs.

struct AskedConfiguration {
  Configuration configuration;
  PricedConfiguration priced;
};

/// The function step_times or peak_bytes, which computes one figure for each of several configurations with
/// the same program.
using FiguresOfProgram = std::vector<std::int64_t> (*)(const TunedProgram&,
                                                       std::span<const PricedConfiguration>);

/// Computes one figure for each configuration, on all cores, and returns them in the order of the
/// configurations. Returns an empty list if `stopped` returns true before the end. Error: that of
/// ProgramLibrary::program().
tl::expected<std::vector<std::int64_t>, std::string> figures_of_all(std::vector<AskedConfiguration> asked,
                                                                    std::shared_ptr<ProgramLibrary> programs,
                                                                    FiguresOfProgram figures_of,
                                                                    const std::function<bool()>& stopped);

/// The figures that simulate() computes for a configuration whose schedule searches its order.
struct SearchedFigures {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;
  std::vector<std::string> notes;  ///< notes about the simulated configuration
};

class SearchedOrders {
 public:
  /// Stores a reference to the request, which must outlive this object. If `stopped` returns true, the search
  /// ends without a result.
  SearchedOrders(const TuneRequest& request, std::function<bool()> stopped)
      : request_(request), stopped_(std::move(stopped)) {}

  /// Returns the figures of a configuration. `priced` are its costs. If an earlier configuration had the same
  /// program key and costs, returns the same figures. Returns nothing if the search was stopped. Error: that
  /// of simulate_scenario().
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
