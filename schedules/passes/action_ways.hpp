#pragma once
// From where actions take activations and gradients, and to where they give them, looked up by their stage
// and kind. What has been handed over while ranks take turns (turn_state.hpp and others) lies in tables by
// way.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A stage edge in one direction, seen from the stage at one end.
struct ActionWay {
  std::size_t number = 0;  ///< 2 edge + flow
  std::int32_t stage = 0;  ///< at the other end
  Flow flow = Flow::activation;

  std::uint32_t edge() const { return static_cast<std::uint32_t>(number / 2); }
};

class ActionWays {
 public:
  explicit ActionWays(const Program& program);

  const EdgeNumbers& edges() const { return edges_; }
  /// All numbers of ways are below it.
  std::size_t count() const { return 2 * edges_.size(); }

  /// Ways over which the action takes something in, givers ascending, and over which it gives something.
  std::span<const ActionWay> taken_by(const Action& action) const {
    const Needs& needs = needs_of(action);
    return {ways_.data() + needs.taken, ways_.data() + needs.given};
  }
  std::span<const ActionWay> given_by(const Action& action) const {
    const Needs& needs = needs_of(action);
    return {ways_.data() + needs.given, ways_.data() + needs.end};
  }

 private:
  static constexpr std::size_t kKindCount = static_cast<std::size_t>(ActionKind::step) + 1;

  /// Of the actions of a stage and kind: from where to where in `ways_`.
  struct Needs {
    std::uint32_t taken = 0;
    std::uint32_t given = 0;  ///< and the end of what is taken
    std::uint32_t end = 0;
  };

  void add_needs(std::int32_t stage, ActionKind kind, RecomputeTiming recompute);
  void add_ways(std::span<const std::uint32_t> numbers, std::int32_t stage, Flow flow);
  const Needs& needs_of(const Action& action) const {
    return needs_[index(action.stage) * kKindCount + static_cast<std::size_t>(action.kind)];
  }

  EdgeNumbers edges_;
  std::vector<Needs> needs_;  // by stage and kind
  std::vector<ActionWay> ways_;
};

}  // namespace penstock
