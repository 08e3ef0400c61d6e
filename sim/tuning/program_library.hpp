#pragma once
// The programs of a space: outlined at once, made and compiled when somebody times one.

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

/// A program that is ready to be timed with other costs and on other links.
struct TunedProgram {
  Program program;  ///< compute actions alone; lowered where turns do not tell its times
  bool is_lowered = false;
  ChannelOptions channels;
  TurnTape turns;  ///< the tape alone of a lowered one
};

/// Programs by schedule, stages, virtual stages and microbatches. Those whose order is a search of its own
/// are there in the order that is constructed for equal stages.
class ProgramLibrary {
 public:
  explicit ProgramLibrary(TuneRequest request) : request_(std::move(request)) {}

  /// From one thread at a time. Error: a shape that the schedule refuses for more than its numbers.
  tl::expected<const ScheduleOutline*, std::string> outline(const Configuration& configuration);

  /// From any thread. Some of those that were asked for longest ago are made anew when they are asked for
  /// again. Error: a program that hangs under the scenario's channels.
  tl::expected<std::shared_ptr<const TunedProgram>, std::string> program(const Configuration& configuration);

  /// Schedule, stages, virtual stages, microbatches.
  using Key = std::tuple<std::string_view, std::int32_t, std::int32_t, std::int32_t>;
  static Key key_of(const Configuration& configuration) {
    return {configuration.schedule, configuration.stages, configuration.virtual_stages,
            configuration.microbatches};
  }

 private:
  struct Kept {
    Key key;
    std::shared_ptr<const TunedProgram> program;
  };
  std::shared_ptr<const TunedProgram> found(const Key& key);
  void keep(const Key& key, const std::shared_ptr<const TunedProgram>& program);

  TuneRequest request_;
  std::map<Key, ScheduleOutline> outlines_;
  std::mutex mutex_;
  std::list<Kept> kept_;  // the one that was asked for last in front
  std::size_t instructions_ = 0;
};

}  // namespace penstock
