#pragma once
// The registers of messages that are sent but not yet received, while placement rounds write a tape. Used by
// turn_tape.cpp.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/action_ways.hpp"
#include "sim/engines/tape.hpp"

namespace penstock {

/// Records which outputs exist, like HandedOver, and the register that holds the arrival of each output that
/// comes from another rank.
class HandedRegisters {
 public:
  explicit HandedRegisters(const Program& program)
      : ways_(program), units_(index(program.unit_count())), there_(ways_.count() * units_, kNowhere) {}

  std::optional<std::int32_t> missing_giver(const Action& action) const {
    for (const ActionWay& way : ways_.taken_by(action)) {
      if (there_[place_of(way, action)] == kNowhere) return way.stage;
    }
    return std::nullopt;
  }

  template <class See>
  void hand_on(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.given_by(action)) {
      newest_way_ = way.number;
      newest_ = place_of(way, action);
      there_[newest_] = kOnRank;
      see(way);
    }
  }

  /// Records that the newest output goes to another rank, and that `arrival` is the register of its arrival
  /// time.
  void newest_arrives(Register arrival) { there_[newest_] = arrival; }
  /// Returns the number of the newest output's edge and direction (ActionWay). It is below way_count().
  std::size_t newest_way() const { return newest_way_; }
  std::size_t way_count() const { return ways_.count(); }

  /// Calls `use` with the registers of the action's inputs that come from other ranks. Each register is
  /// passed only once.
  template <class Use>
  void take_in(const Action& action, const Use& use) {
    for (const ActionWay& way : ways_.taken_by(action)) {
      Register& there = there_[place_of(way, action)];
      if (there >= kOnRank) continue;
      use(std::exchange(there, kOnRank));
    }
  }
  /// Returns the registers of outputs that no action has received.
  std::vector<Register> left() const {
    std::vector<Register> registers;
    std::ranges::copy_if(there_, std::back_inserter(registers), [](Register at) { return at < kOnRank; });
    return registers;
  }

 private:
  static constexpr Register kNowhere = kNoRegister;
  static constexpr Register kOnRank = kNoRegister - 1;

  std::size_t place_of(const ActionWay& way, const Action& action) const {
    return way.number * units_ + index(action.microbatch);
  }

  ActionWays ways_;
  std::size_t units_;
  std::vector<Register> there_;  // index: edge and direction, then unit
  std::size_t newest_ = 0;
  std::size_t newest_way_ = 0;
};

}  // namespace penstock
