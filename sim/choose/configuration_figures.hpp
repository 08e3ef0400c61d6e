#pragma once
// Computes the times and peaks of configurations. ProgramLibrary caches the programs. It makes outlines
// early, but it generates and compiles a program only when times are needed. The tape runs several
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
#include "sim/engines/evaluate.hpp"

namespace penstock {

/// A compiled program, which runs with any costs and on any links.
struct TunedProgram {
  Program program;  ///< the program; it has only compute actions unless `is_lowered` is true
  bool is_lowered = false;
  ChannelOptions channels;
  TurnTape turns;  ///< the tape of the program; if `is_lowered` is true, only `turns.tape` is filled in
};

/// A cache of programs, by schedule, stages, virtual stages, microbatches and offload. If a schedule searches
/// for its order by costs, the cached program has the order for stages of equal cost.
class ProgramLibrary {
 public:
  explicit ProgramLibrary(TuneRequest request) : request_(std::move(request)) {}

  /// Returns the outline of the configuration's program: the moments at which each rank stores most. Must not
  /// be called from two threads at once. Returns an error if the schedule refuses the configuration because
  /// of an option of the scenario.
  tl::expected<const ScheduleOutline*, std::string> outline(const Configuration& configuration);

  /// Returns the configuration's program. May be called from any thread. A program that was not used for a
  /// long time is removed from the cache, and generated again when it is needed. Returns an error if the
  /// program hangs with the scenario's channels.
  tl::expected<std::shared_ptr<const TunedProgram>, std::string> program(const Configuration& configuration);

  /// The schedule, stages, virtual stages, microbatches and offload of a program.
  using Key = std::tuple<std::string_view, std::int32_t, std::int32_t, std::int32_t, std::int32_t>;
  static Key key_of(const Configuration& configuration) {
    return {configuration.schedule, configuration.stages, configuration.virtual_stages,
            configuration.microbatches, configuration.offload};
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

/// Returns the step time in nanoseconds of each configuration in `priced`. The times are those that
/// simulate() finds. All configurations must have the program `tuned`.
std::vector<Ns> step_times(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

/// Returns the levelled peak of the fullest rank, in bytes, for each configuration in `priced`. On devices of
/// one kind, it is the peak that simulate() finds. On unlike devices, the bytes are added by which the rank's
/// memory is smaller than the largest (PricedConfiguration::smaller_by). All configurations must have the
/// program `tuned`.
std::vector<Bytes> peak_bytes(const TunedProgram& tuned, std::span<const PricedConfiguration> priced);

/// Returns the rank of peak_bytes() for each configuration in `priced`: the one with the least free memory.
std::vector<std::int64_t> fullest_ranks(const TunedProgram& tuned,
                                        std::span<const PricedConfiguration> priced);

// One configuration of a call of figures_of_all(), with its costs.

struct AskedConfiguration {
  Configuration configuration;
  PricedConfiguration priced;
};

/// The type of step_times(), peak_bytes() and fullest_ranks(). Such a function computes one figure for each
/// of several configurations with the same program.
using FiguresOfProgram = std::vector<std::int64_t> (*)(const TunedProgram&,
                                                       std::span<const PricedConfiguration>);

/// Returns one figure for each configuration, in the order of `asked`. Uses all cores. Returns an empty list
/// if `stopped` returns true before the end. Returns the errors of ProgramLibrary::program().
tl::expected<std::vector<std::int64_t>, std::string> figures_of_all(std::vector<AskedConfiguration> asked,
                                                                    std::shared_ptr<ProgramLibrary> programs,
                                                                    FiguresOfProgram figures_of,
                                                                    const std::function<bool()>& stopped);

/// The figures that simulate() computes for a configuration whose schedule searches its order.
struct SearchedFigures {
  Ns step_ns = 0;
  Bytes peak_bytes = 0;  ///< the levelled peak of the fullest rank
  std::int64_t fullest_rank = 0;
  std::vector<std::string> notes;  ///< notes about the simulated configuration
};

class SearchedOrders {
 public:
  /// Stores a reference to the request, which must outlive this object. If `stopped` returns true, the search
  /// ends without a result.
  SearchedOrders(const TuneRequest& request, std::function<bool()> stopped)
      : request_(request), stopped_(std::move(stopped)) {}

  /// Returns the figures of a configuration whose costs are `priced`. The result is cached for later
  /// configurations with the same program key and costs. Returns nothing if the search was stopped. Returns
  /// the errors of simulate_scenario().
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
