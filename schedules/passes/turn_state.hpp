#pragma once
// What is known while ranks take turns (take_turns.hpp): which of them may be ready, what each has been
// handed, and how far its collectives are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/action_ways.hpp"

namespace penstock {

/// A set of ranks, taken from the lowest to the highest.
class RankSet {
 public:
  /// None yet, of ranks 0 to `ranks` - 1.
  explicit RankSet(std::size_t ranks) : words_((ranks + 63) / 64, 0), lowest_word_(words_.size()) {}

  bool empty() const { return lowest_word_ == words_.size(); }
  void add(std::int32_t rank) {
    const std::size_t word = index(rank) / 64;
    if ((words_[word] & bit_of(rank)) != 0) return;  // mostly; then whoever asks next need not wait for this
    words_[word] |= bit_of(rank);
    lowest_word_ = std::min(lowest_word_, word);
  }
  /// The rank must be in the set.
  void remove(std::int32_t rank) {
    words_[index(rank) / 64] &= ~bit_of(rank);
    while (lowest_word_ < words_.size() && words_[lowest_word_] == 0) ++lowest_word_;
  }
  /// The set must not be empty.
  std::int32_t lowest() const {
    return static_cast<std::int32_t>(lowest_word_ * 64) + __builtin_ctzll(words_[lowest_word_]);  // never 0
  }
  /// A bit a rank.
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  /// Within its word.
  static std::uint64_t bit_of(std::int32_t rank) { return std::uint64_t{1} << (index(rank) % 64); }

  std::vector<std::uint64_t> words_;
  std::size_t lowest_word_;  ///< all before it are 0, and it is not; their number: all are
};

/// What the ranks of a program with plain lists have not placed.
class ListHeads {
 public:
  explicit ListHeads(const Program& program)
      : program_(program), rest_(program.ranks.begin(), program.ranks.end()) {}

  /// The next of the rank's list, an action or an overlapped group; empty at its end.
  std::span<const Action> group(std::int32_t rank) const {
    const std::span<const Action> list = rest_[index(rank)];
    if (list.empty() || !list.front().overlaps_next) [[likely]]
      return list.first(list.empty() ? 0 : 1);
    return list.first(group_end(list, 0));
  }
  /// Its first action; null at the end of the list.
  const Action* next(std::int32_t rank) const {
    const std::span<const Action> list = rest_[index(rank)];
    return list.empty() ? nullptr : list.data();
  }
  void pass(std::int32_t rank, std::size_t actions) {
    rest_[index(rank)] = rest_[index(rank)].subspan(actions);
  }
  /// How many actions of its list the rank is past.
  std::int64_t position(std::int32_t rank) const {
    return std::ssize(program_.ranks[index(rank)]) - std::ssize(rest_[index(rank)]);
  }

 private:
  const Program& program_;
  std::vector<std::span<const Action>> rest_;  // by rank
};

/// The same of lists that are loops, which are spelled out a group at a time.
class LoopHeads {
 public:
  /// The lists must outlive the heads.
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

  /// At the first action of the group.
  const LoopCursor& cursor(std::int32_t rank) const { return heads_[index(rank)].cursor; }
  /// Passes whole repetitions, as LoopCursor::skip().
  void skip(std::int32_t rank, std::int32_t inner, std::int32_t outer) {
    heads_[index(rank)].cursor.skip(inner, outer);
    spell_out(heads_[index(rank)]);
  }

 private:
  struct Head {
    LoopCursor cursor;
    Action first;
    std::vector<Action> group;  // where it has more than one action
  };
  static void spell_out(Head& head) {
    if (head.cursor.at_end()) return;
    head.first = *head.cursor;
    if (head.first.overlaps_next) spell_out_group(head);
  }
  static void spell_out_group(Head& head);

  std::vector<Head> heads_;  // by rank
};

/// Which activations and gradients are on the rank that asks for them: made there, or sent to it.
class HandedOver {
 public:
  explicit HandedOver(const Program& program)
      : ways_(program), units_(index(program.unit_count())), there_(ways_.count() * units_, false) {}

  /// The first stage that the action waits for; nothing when it has all that it takes in.
  std::optional<std::int32_t> missing_giver(const Action& action) const {
    for (const ActionWay& way : ways_.taken_by(action)) {
      if (!there_[place_of(way, action)]) return way.stage;
    }
    return std::nullopt;
  }

  /// Hands what the action makes over to all stages that take it, and names the way to each of them.
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
  std::vector<bool> there_;  // by way and unit
};

/// How far the members of each collective have come. A rank stands at a collective when its list says it
/// next, and is past it when it has joined. The k-th of a stage and kind is the k-th on every member.
class CollectiveCounts {
 public:
  explicit CollectiveCounts(const Placement& placement);

  /// The number of the rank's next one: how many it is past.
  std::size_t next_of(const Action& collective, std::int32_t rank);
  /// `rank` stands at its next one; true when all members stand there or are past it.
  bool reach(const Action& collective, std::int32_t rank);
  /// True when all members stand at that number or are past it. Requires that some do.
  bool all_reached(const Action& collective, std::size_t number);
  /// `rank` goes past its next one; true when it is the last member to do so.
  bool join(const Action& collective, std::int32_t rank);
  /// True when all members are past what `rank` is past.
  bool all_joined(const Action& collective, std::int32_t rank);

 private:
  struct Met {
    std::size_t reached = 0;  // members that stand at it or are past it
    std::size_t joined = 0;   // members that are past it
  };
  /// The UNSHARDs or the REDUCE_GRADs of one stage.
  struct Group {
    std::vector<std::int32_t> members;  // ascending
    std::vector<std::size_t> passed;    // by member: how many it is past
    std::vector<Met> met;               // one a collective
  };
  Group& group_of(const Action& collective);
  static std::size_t& passed_by(Group& group, std::int32_t rank);

  const Placement& placement_;
  std::vector<Group> groups_;  // by stage and kind; filled when they are met
};

}  // namespace penstock
