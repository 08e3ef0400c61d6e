// The list of lowering passes, from a compute program to one that can run: SEND and RECV actions, placed by
// the sender.
//
//   rank 0   0F0 0F1 0B0 0B1        0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
//   rank 1   1F0 1B0 1F1 1B1   ->   1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1
//
// A program that has its transfers, or needs none, is left as it is, so that lowering twice is lowering once.

#include "schedules/passes/lower.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "schedules/check/channel_check.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/take_turns.hpp"

namespace penstock {
namespace {

/// The sink of turns that keeps the lists.
class ListWriter {
 public:
  explicit ListWriter(const Program& program) : lists_(program.ranks.size()) {
    // In a chain an action receives one message and sends one.
    for (std::size_t rank = 0; rank < lists_.size(); ++rank)
      lists_[rank].reserve(3 * program.ranks[rank].size());
  }

  void compute(std::int32_t rank, std::span<const Action> group) {
    std::vector<Action>& list = lists_[index(rank)];
    for (const Action& action : group) list.push_back(action);
  }
  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    lists_[index(from_rank)].push_back(send_of(message));
    lists_[index(to_rank)].push_back(recv_of(message));
  }
  void collective(std::int32_t rank, const Action& action) { lists_[index(rank)].push_back(action); }

  std::vector<std::vector<Action>> lists() && { return std::move(lists_); }

 private:
  std::vector<std::vector<Action>> lists_;
};

/// All of a program but its lists.
Program without_lists(const Program& program) {
  return {.schedule = program.schedule,
          .microbatches = program.microbatches,
          .slices = program.slices,
          .iterations = program.iterations,
          .barrier = program.barrier,
          .mixed_versions = program.mixed_versions,
          .update = program.update,
          .recompute = program.recompute,
          .sharding = program.sharding,
          .channel = program.channel,
          .placement = program.placement,
          .edges = program.edges};
}

}  // namespace

tl::expected<Program, std::string> lower(const Program& program) {
  if (is_lowered(program)) return program;
  ListWriter writer(program);
  TurnsTaken taken = take_turns(program, writer);
  if (!taken.finished) return tl::unexpected(std::move(taken.stuck));
  Program lowered = without_lists(program);
  lowered.ranks = std::move(writer).lists();
  // Whoever joined a collective early has given up the argument that nothing can hang, so it is proven.
  if (!taken.stuck.empty() && find_hang(lowered, {}, unit_costs(lowered)))
    return tl::unexpected(std::move(taken.stuck));
  return lowered;
}

}  // namespace penstock
