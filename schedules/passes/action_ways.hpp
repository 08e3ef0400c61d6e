#pragma once
// From where actions take activations and gradients, and to where they give them, looked up by their stage
// and kind. What has been handed over while ranks take turns (turn_state.hpp and others) lies in tables by
// way.

#include <array>
#include <cstddef>
#include <cstdint>
#include <ranges>
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
  static constexpr std::int32_t kSeveral = -1;

  std::uint32_t number = 0;  ///< 2 edge + flow
  std::int32_t stage = 0;    ///< at the other end
  std::int32_t rank = 0;     ///< that holds it; kSeveral where more than one does
  Flow flow = Flow::activation;

  std::uint32_t edge() const { return number / 2; }
  /// The rank at the other end for a microbatch (slice).
  std::int32_t rank_of(const Placement& placement, std::int32_t microbatch) const {
    return rank != kSeveral ? rank : placement.rank_of(stage, microbatch);
  }
};

class ActionWays {
 public:
  using Ways = std::ranges::subrange<const ActionWay*>;

  explicit ActionWays(const Program& program);
  ActionWays(const ActionWays&) = delete;  // entries point at others
  ActionWays& operator=(const ActionWays&) = delete;

  const EdgeNumbers& edges() const { return edges_; }
  /// All numbers of ways are below it.
  std::size_t count() const { return 2 * edges_.size(); }

  /// Ways over which the action takes something in, givers ascending, and over which it gives something.
  Ways taken_by(const Action& action) const {
    const Needs& needs = needs_of(action);
    return {needs.taken, needs.given};
  }
  Ways given_by(const Action& action) const {
    const Needs& needs = needs_of(action);
    return {needs.given, needs.end};
  }

 private:
  /// What actions of a stage need and give, of some kinds: from where to where in `ways_`.
  struct Needs {
    const ActionWay* taken = nullptr;
    const ActionWay* given = nullptr;  ///< and the end of what is taken
    const ActionWay* end = nullptr;
  };
  /// Kinds that take and give the same.
  enum class Like : std::uint8_t { forward, backward, late_recompute, none };
  static constexpr std::size_t kLikes = static_cast<std::size_t>(Like::none) + 1;

  static Like like_of(ActionKind kind, RecomputeTiming recompute);
  /// Returns the first of them, or where it would be.
  const ActionWay* add_ways(const Placement& placement, std::span<const std::uint32_t> numbers,
                            std::int32_t stage, Flow flow);
  const Needs& needs_of(const Action& action) const {
    const Like like = like_[static_cast<std::size_t>(action.kind)];
    return needs_[index(action.stage) * kLikes + static_cast<std::size_t>(like)];
  }

  EdgeNumbers edges_;
  std::array<Like, static_cast<std::size_t>(ActionKind::step) + 1> like_{};  // by kind
  std::vector<Needs> needs_;                                                 // by stage and like
  std::vector<ActionWay> ways_;
};

}  // namespace penstock
