#pragma once
// Looks up the routes over which an action receives and sends activations and gradients, by stage and kind. A
// route is a stage edge in one direction. turn_state.hpp and other files record by route which data has been
// sent.

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

/// A route: a stage edge in one direction, seen from the stage at one end.
struct ActionWay {
  static constexpr std::int32_t kSeveral = -1;

  /// The number of the route, which is 2 x edge number + flow.
  std::uint32_t number = 0;
  /// The stage at the other end.
  std::int32_t stage = 0;
  /// The rank that holds the stage at the other end, or kSeveral if several ranks hold it.
  std::int32_t rank = 0;
  Flow flow = Flow::activation;

  std::uint32_t edge() const { return number / 2; }
  /// Returns the rank at the other end for this microbatch or slice.
  std::int32_t rank_of(const Placement& placement, std::int32_t microbatch) const {
    return rank != kSeveral ? rank : placement.rank_of(stage, microbatch);
  }
};

/// The routes of all actions of a program.
class ActionWays {
 public:
  using Ways = std::ranges::subrange<const ActionWay*>;

  explicit ActionWays(const Program& program);
  ActionWays(const ActionWays&) = delete;  // pointers in this object point to its own entries
  ActionWays& operator=(const ActionWays&) = delete;

  const EdgeNumbers& edges() const { return edges_; }
  /// Returns the number of routes. Every route number is smaller.
  std::size_t count() const { return 2 * edges_.size(); }

  /// Returns the routes over which the action receives (`taken_by`) or sends (`given_by`). They are in
  /// ascending order of the stage at the other end.
  Ways taken_by(const Action& action) const {
    const Needs& needs = needs_of(action);
    return {needs.taken, needs.given};
  }
  Ways given_by(const Action& action) const {
    const Needs& needs = needs_of(action);
    return {needs.given, needs.end};
  }

 private:
  /// The routes of the actions with the same stage and the same group of kinds, as ranges of `ways_`.
  struct Needs {
    /// The first route that receives.
    const ActionWay* taken = nullptr;
    /// The first route that sends. It is also the end of the routes that receive.
    const ActionWay* given = nullptr;
    const ActionWay* end = nullptr;
  };
  /// The groups of kinds. All kinds of a group receive and send the same flows.
  enum class Like : std::uint8_t { forward, backward, late_recompute, none };
  static constexpr std::size_t kLikes = static_cast<std::size_t>(Like::none) + 1;

  static Like like_of(ActionKind kind, RecomputeTiming recompute);
  /// Appends the routes over these edges. Returns the first of them, or the end if there are none.
  const ActionWay* add_ways(const Placement& placement, std::span<const std::uint32_t> numbers,
                            std::int32_t stage, Flow flow);
  const Needs& needs_of(const Action& action) const {
    const Like like = like_[static_cast<std::size_t>(action.kind)];
    return needs_[index(action.stage) * kLikes + static_cast<std::size_t>(like)];
  }

  EdgeNumbers edges_;
  std::array<Like, static_cast<std::size_t>(ActionKind::step) + 1> like_{};  // by kind
  std::vector<Needs> needs_;  // the routes of each stage and group of kinds
  std::vector<ActionWay> ways_;
};

}  // namespace penstock
