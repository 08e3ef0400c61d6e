#pragma once
// The programs of a space. Outlines are made immediately. A program is generated and compiled when it is
// first timed.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/prepare/schedule_outline.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "sim/engines/turn_tape.hpp"
#include "sim/tuning/configuration.hpp"

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

}  // namespace penstock
