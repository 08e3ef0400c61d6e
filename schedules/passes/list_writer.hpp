#pragma once
// A sink of placement rounds (take_turns.hpp) that stores the placed actions as lists.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns a program with all fields of `program` except its lists.
Program without_lists(const Program& program);

/// A sink that collects a program's lists with their messages.
class ListWriter {
 public:
  explicit ListWriter(const Program& program) : lists_(program.ranks.size()) {
    // In a chain each action has at most one RECV and one SEND.
    for (std::size_t rank = 0; rank < lists_.size(); ++rank)
      lists_[rank].reserve(3 * program.ranks[rank].size());
  }

  void compute(std::int32_t rank, std::span<const Action> group) {
    std::vector<Action>& list = lists_[index(rank)];
    for (const Action& action : group) list.push_back(action);
  }
  /// Appends both ends of a message at the same moment. Therefore lowered lists cannot hang (lower.hpp).
  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    lists_[index(from_rank)].push_back(send_of(message));
    lists_[index(to_rank)].push_back(recv_of(message));
  }
  void collective(std::int32_t rank, const Action& action) { lists_[index(rank)].push_back(action); }

  std::vector<std::vector<Action>> lists() && { return std::move(lists_); }

 private:
  std::vector<std::vector<Action>> lists_;
};

}  // namespace penstock
