#pragma once
// Where messages are that a tape's turns have handed over. Used by turn_tape.cpp.

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

/// What has been handed over (as HandedOver), and where its arrival is.
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

  /// What was handed on last comes from another rank, and arrives as that register says.
  void newest_arrives(Register arrival) { there_[newest_] = arrival; }
  /// Over which edge and in which direction it goes (ActionWay), below way_count().
  std::size_t newest_way() const { return newest_way_; }
  std::size_t way_count() const { return ways_.count(); }

  /// Names the registers of what the action takes in from other ranks, which are asked for once.
  template <class Use>
  void take_in(const Action& action, const Use& use) {
    for (const ActionWay& way : ways_.taken_by(action)) {
      Register& there = there_[place_of(way, action)];
      if (there >= kOnRank) continue;
      use(std::exchange(there, kOnRank));
    }
  }
  /// ... of what nobody has taken in.
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
  std::vector<Register> there_;  // by way and unit
  std::size_t newest_ = 0;
  std::size_t newest_way_ = 0;
};

}  // namespace penstock
