#pragma once
// The times and peaks of configurations. ProgramLibrary caches the programs of a space: an outline is made
// at once, a program is generated and compiled when it is first timed. Configurations of one program are
// timed side by side on its tape. Those whose schedule searches its order are simulated.

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

/// A program that can be timed with any costs and on any links.
struct TunedProgram {
  Program program;  ///< compute actions only; lowered if a TurnTape cannot express its times
  bool is_lowered = false;
  ChannelOptions channels;
  TurnTape turns;  ///< if the program is lowered, only `turns.tape` is filled in
};

/// Caches programs by schedule, stages, virtual stages and microbatches. If a schedule searches its order,
/// the cache has the order that the schedule constructs for equal stages.
class ProgramLibrary {
 public:
  explicit ProgramLibrary(TuneRequest request) : request_(std::move(request)) {}

  /// Returns the outline of the configuration's program. Must not be called from two threads at once. Error:
  /// the schedule refuses the shape for another reason than its numbers.
  tl::expected<const ScheduleOutline*, std::string> outline(const Configuration& configuration);

  /// Returns the configuration's program. May be called from any thread. The least recently used programs are
  /// dropped, and generated again when needed. Error: a program that hangs under the scenario's channels.
  tl::expected<std::shared_ptr<const TunedProgram>, std::string> program(const Configuration& configuration);

  /// Schedule, stages, virtual stages, microbatches.
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
  std::list<Cached> cached_;  // most recently used first
  std::size_t instructions_ = 0;
};

// Times and peaks of configurations, computed with the tape of their program.

/// Returns the step times of configurations of one program. They equal the times of simulate(). Several
/// configurations are timed at once.
std::vector<Ns> step_times(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

/// Returns the peaks of the fullest ranks. They equal the peaks of simulate().
std::vector<Bytes> peak_bytes(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

// Computes one figure for each of many configurations. Configurations of one program run side by side, and
// programs run on all cores.

struct AskedConfiguration {
  Configuration configuration;
  PricedConfiguration priced;
};

/// A function that computes the figure: step_times or peak_bytes.
using FiguresOfProgram = std::vector<std::int64_t> (*)(const TunedProgram&,
                                                       std::span<const PricedConfiguration>);

/// Returns the figures in the order of the configurations. Returns an empty list if `stopped` is given and
/// becomes true before the end. Error: that of ProgramLibrary::program().
tl::expected<std::vector<std::int64_t>, std::string> figures_of_all(std::vector<AskedConfiguration> asked,
                                                                    std::shared_ptr<ProgramLibrary> programs,
                                                                    FiguresOfProgram figures_of,
                                                                    const std::function<bool()>& stopped);

// Figures of configurations whose schedules search an order for the costs of their stages.

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
