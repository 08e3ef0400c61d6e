#pragma once
// The state of placement rounds (take_turns.hpp): the routes over which actions send and receive, the ranks
// that may be ready, the inputs that each rank has received, and the progress of collectives.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <ranges>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A route: an edge between two stages in one direction, seen from the stage at one end.
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
  /// Returns the rank that runs the stage at the other end of the route for this microbatch or slice.
  std::int32_t rank_of(const Placement& placement, std::int32_t microbatch) const {
    return rank != kSeveral ? rank : placement.rank_of(stage, microbatch);
  }
};

/// The routes over which the actions of a program receive and send.
class ActionWays {
 public:
  using Ways = std::ranges::subrange<const ActionWay*>;

  explicit ActionWays(const Program& program);
  ActionWays(const ActionWays&) = delete;  // pointers in this object point to its own entries
  ActionWays& operator=(const ActionWays&) = delete;

  const EdgeNumbers& edges() const { return edges_; }
  /// Returns the number of routes. The number of every route is smaller than this.
  std::size_t count() const { return 2 * edges_.size(); }

  /// Returns the routes over which an action receives its inputs (`taken_by`) or sends its outputs
  /// (`given_by`). They are in ascending order of the stages at the other ends.
  Ways taken_by(const Action& action) const {
    const Needs& needs = needs_of(action);
    return {needs.taken, needs.given};
  }
  Ways given_by(const Action& action) const {
    const Needs& needs = needs_of(action);
    return {needs.given, needs.end};
  }

 private:
  /// The routes of one stage for one group of action kinds, as ranges of `ways_`.
  struct Needs {
    /// The first route over which actions of this group receive their inputs.
    const ActionWay* taken = nullptr;
    /// The first route over which actions of this group send their outputs. It is also the end of the routes
    /// over which they receive.
    const ActionWay* given = nullptr;
    const ActionWay* end = nullptr;
  };
  /// The groups of action kinds. The actions of a group receive the same flows, and send the same flows.
  enum class Like : std::uint8_t { forward, backward, late_recompute, none };
  static constexpr std::size_t kLikes = static_cast<std::size_t>(Like::none) + 1;

  static Like like_of(ActionKind kind, RecomputeTiming recompute);
  /// Appends to `ways_` the routes of `stage` over the edges with these numbers. Returns the first of them,
  /// or the end of `ways_` if there are none.
  const ActionWay* add_ways(const Placement& placement, std::span<const std::uint32_t> numbers,
                            std::int32_t stage, Flow flow);
  const Needs& needs_of(const Action& action) const {
    const Like like = like_[static_cast<std::size_t>(action.kind)];
    return needs_[index(action.stage) * kLikes + static_cast<std::size_t>(like)];
  }

  EdgeNumbers edges_;
  std::array<Like, kActionKindCount> like_{};  // the group to which each kind of action belongs
  std::vector<Needs> needs_;                   // the routes of each stage and group of kinds
  std::vector<ActionWay> ways_;
};

/// A set of ranks in which the lowest rank is found fast.
class RankSet {
 public:
  /// Makes an empty set for ranks below `ranks`.
  explicit RankSet(std::size_t ranks) : words_((ranks + 63) / 64, 0), lowest_word_(words_.size()) {}

  bool empty() const { return lowest_word_ == words_.size(); }
  void add(std::int32_t rank) {
    const std::size_t word = index(rank) / 64;
    if ((words_[word] & bit_of(rank)) != 0) return;  // the usual case: the rank is already in the set
    words_[word] |= bit_of(rank);
    lowest_word_ = std::min(lowest_word_, word);
  }
  /// Removes a rank, which must be in the set.
  void remove(std::int32_t rank) {
    words_[index(rank) / 64] &= ~bit_of(rank);
    while (lowest_word_ < words_.size() && words_[lowest_word_] == 0) ++lowest_word_;
  }
  /// Returns the lowest rank. Requires that the set is not empty.
  std::int32_t lowest() const {
    return static_cast<std::int32_t>(lowest_word_ * 64) +
           __builtin_ctzll(words_[lowest_word_]);  // the word is never 0
  }
  /// Returns the set as words of 64 bits, with one bit for each rank.
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  /// Returns a word in which only the bit of `rank` is set.
  static std::uint64_t bit_of(std::int32_t rank) { return std::uint64_t{1} << (index(rank) % 64); }

  std::vector<std::uint64_t> words_;
  /// The index of the first word that is not 0. It is the number of words if the set is empty.
  std::size_t lowest_word_;
};

/// The actions of each rank that are not placed yet, for a program with plain lists.
class ListHeads {
 public:
  explicit ListHeads(const Program& program)
      : program_(program), rest_(program.ranks.begin(), program.ranks.end()) {}

  /// Returns the next action or overlapped group of the rank's list. Returns an empty span at the end of the
  /// list.
  std::span<const Action> group(std::int32_t rank) const {
    const std::span<const Action> list = rest_[index(rank)];
    if (list.empty() || !list.front().overlaps_next) [[likely]]
      return list.first(list.empty() ? 0 : 1);
    return list.first(group_end(list, 0));
  }
  /// Returns the next action, or null at the end of the list.
  const Action* next(std::int32_t rank) const {
    const std::span<const Action> list = rest_[index(rank)];
    return list.empty() ? nullptr : list.data();
  }
  void pass(std::int32_t rank, std::size_t actions) {
    rest_[index(rank)] = rest_[index(rank)].subspan(actions);
  }
  /// Returns the number of actions that the rank has placed.
  std::int64_t position(std::int32_t rank) const {
    return std::ssize(program_.ranks[index(rank)]) - std::ssize(rest_[index(rank)]);
  }

 private:
  const Program& program_;
  std::vector<std::span<const Action>> rest_;  // actions of each rank that are not placed yet
};

/// The actions of each rank that are not placed yet, for a program whose lists are stored as loops. It has
/// the members of ListHeads. It copies one group of actions at a time.
class LoopHeads {
 public:
  /// Begins at the first action of each list. `lists` must outlive this object.
  explicit LoopHeads(std::span<const ActionLoops> lists);

  std::span<const Action> group(std::int32_t rank) const {
    const Head& head = heads_[index(rank)];
    if (head.cursor.at_end()) return {};
    if (!head.first.overlaps_next) return {&head.first, 1};
    return head.group;
  }
  const Action* next(std::int32_t rank) const {
    const Head& head = heads_[index(rank)];
    return head.cursor.at_end() ? nullptr : &head.first;
  }
  void pass(std::int32_t rank, std::size_t actions) {
    Head& head = heads_[index(rank)];
    for (; actions > 0; --actions) ++head.cursor;
    spell_out(head);
  }
  std::int64_t position(std::int32_t rank) const { return heads_[index(rank)].cursor.passed(); }

  /// Returns the cursor of the rank, which stands at the first action of its current group.
  const LoopCursor& cursor(std::int32_t rank) const { return heads_[index(rank)].cursor; }
  /// Skips whole repetitions of the rank's current loop, like LoopCursor::skip().
  void skip(std::int32_t rank, std::int32_t inner, std::int32_t outer) {
    heads_[index(rank)].cursor.skip(inner, outer);
    spell_out(heads_[index(rank)]);
  }

 private:
  struct Head {
    LoopCursor cursor;
    Action first;
    std::vector<Action> group;  // used only if the group has more than one action
  };
  static void spell_out(Head& head) {
    if (head.cursor.at_end()) return;
    head.first = *head.cursor;
    if (head.first.overlaps_next) spell_out_group(head);
  }
  static void spell_out_group(Head& head);

  std::vector<Head> heads_;  // head of each rank's list
};

/// The record of the activations and gradients that have reached the ranks that need them. Data has reached
/// a rank if the rank has computed or received it.
class HandedOver {
 public:
  explicit HandedOver(const Program& program)
      : ways_(program), units_(index(program.unit_count())), there_(ways_.count() * units_, false) {}

  /// Returns the stage whose output the action still waits for, or nothing if all inputs are there. If the
  /// outputs of several stages are missing, returns the first of them.
  std::optional<std::int32_t> missing_giver(const Action& action) const {
    for (const ActionWay& way : ways_.taken_by(action)) {
      if (!there_[place_of(way, action)]) return way.stage;
    }
    return std::nullopt;
  }

  /// Marks the outputs of the action as sent to all stages that read them. Calls `see` with the route to
  /// each of these stages.
  template <class See>
  void hand_on(const Action& action, const See& see) {
    for (const ActionWay& way : ways_.given_by(action)) {
      there_[place_of(way, action)] = true;
      see(way);
    }
  }

 private:
  std::size_t place_of(const ActionWay& way, const Action& action) const {
    return way.number * units_ + index(action.microbatch);
  }

  ActionWays ways_;
  std::size_t units_;
  std::vector<bool> there_;  // true if the data has arrived; by route and microbatch (or slice)
};

/// The progress of the members of each collective. A rank has reached a collective if the collective is the
/// next action in its list. A rank has passed a collective after joining it. The k-th collective of a stage
/// and kind is the same for all members.
class CollectiveCounts {
 public:
  explicit CollectiveCounts(const Placement& placement);

  /// Returns the number of the next collective of this stage and kind in the rank's list. It equals the
  /// number of such collectives that the rank has passed.
  std::size_t next_of(const Action& collective, std::int32_t rank);
  /// Records that `rank` has reached its next collective. Returns true if all members have now reached or
  /// passed it.
  bool reach(const Action& collective, std::int32_t rank);
  /// Returns true if all members have reached or passed collective `number`. Requires that at least one
  /// member has.
  bool all_reached(const Action& collective, std::size_t number);
  /// Records that `rank` passes its next collective of this stage and kind. Returns true if it is the last
  /// member to do so.
  bool join(const Action& collective, std::int32_t rank);
  /// Returns true if every member has passed at least as many collectives of this stage and kind as `rank`.
  bool all_joined(const Action& collective, std::int32_t rank);

 private:
  struct Met {
    std::size_t reached = 0;  // the number of members that have reached or passed it
    std::size_t joined = 0;   // the number of members that have passed it
  };
  /// All collectives of one kind of a stage: its UNSHARDs, or its REDUCE_GRADs.
  struct Group {
    std::vector<std::int32_t> members;  // members in ascending order
    std::vector<std::size_t> passed;    // number of collectives that each member has passed
    std::vector<Met> met;               // one entry for each collective
  };
  Group& group_of(const Action& collective);
  static std::size_t& passed_by(Group& group, std::int32_t rank);

  const Placement& placement_;
  // Groups by stage and kind; a group is filled when its first collective is reached.
  std::vector<Group> groups_;
};

}  // namespace penstock
