// Computes the digest of a lowered program without storing its lists. The digest reads the whole list of one
// rank after the other, but placement rounds place a few actions on every rank in each round. Therefore all
// placed actions are stored in a short form. The next action of the rank's own list takes one word, because
// its loops can produce it again. An end of a message takes two words.
//
//   rank 1, lowered:  1RECV_F0 1F0 1SEND_F0   1RECV_F1 ...
//   placed:           route    own   route    route        own: the next action of the list
//   units:            0              0        1            route: edge, flow, which end
//
// Tested by digest_test.cpp.

#include "schedules/passes/lowered_digest.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/edge_numbers.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/take_turns.hpp"
#include "schedules/passes/turn_state.hpp"

namespace penstock {
namespace {

/// A sink of placement rounds that stores the short form.
class PlacedWords {
 public:
  PlacedWords(const Program& program, std::span<const ActionLoops> lists)
      : edges_(program), ranks_(lists.size()) {
    // In a chain each action has at most one RECV and one SEND. Unused reserved memory costs nothing, because
    // it is never touched.
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      const auto own = static_cast<std::size_t>(lists[rank].size());
      ranks_[rank].placed.reserve(3 * own);
      ranks_[rank].units.reserve(2 * own);
    }
  }

  void compute(std::int32_t rank, std::span<const Action> group) {
    std::vector<std::uint32_t>& placed = ranks_[index(rank)].placed;
    placed.insert(placed.end(), group.size(), kOwn);
  }
  void message(const StageMessage& message, std::int32_t from_rank, std::int32_t to_rank) {
    const auto edge = static_cast<std::uint32_t>(edges_.of(edge_of(message)));
    const std::uint32_t way = 4 * edge + 2 * static_cast<std::uint32_t>(message.flow);
    ranks_[index(from_rank)].add(way, message.microbatch);
    ranks_[index(to_rank)].add(way + 1, message.microbatch);
  }
  void collective(std::int32_t rank, const Action& /*action*/) { ranks_[index(rank)].placed.push_back(kOwn); }

  /// Adds the rank's lowered list to the digest.
  void tell(std::int32_t rank, LoopCursor own, DigestOfLists& lists) const {
    const OfRank& here = ranks_[index(rank)];
    lists.begin_list(here.placed.size());
    std::size_t unit = 0;
    for (const std::uint32_t word : here.placed) {
      if (word == kOwn) {
        lists.add(*own);
        ++own;
      } else {
        lists.add(transfer_of(word, here.units[unit++]));
      }
    }
  }

 private:
  static constexpr std::uint32_t kOwn =
      0xffff'ffff;  // not a route number, because there are far fewer than 2^30 edges

  struct OfRank {
    std::vector<std::uint32_t> placed;
    std::vector<std::int32_t> units;  // the unit of each message

    void add(std::uint32_t word, std::int32_t unit) {
      placed.push_back(word);
      units.push_back(unit);
    }
  };

  /// Returns the SEND or RECV of a word, which is 4 edge + 2 flow + (0 SEND, 1 RECV).
  Action transfer_of(std::uint32_t word, std::int32_t unit) const {
    const StageEdge& edge = edges_.edges()[word / 4];
    const bool along = word % 4 < 2;
    const StageMessage message{.flow = along ? Flow::activation : Flow::gradient,
                               .from = along ? edge.from : edge.to,
                               .to = along ? edge.to : edge.from,
                               .microbatch = unit};
    return word % 2 == 0 ? send_of(message) : recv_of(message);
  }

  EdgeNumbers edges_;
  std::vector<OfRank> ranks_;
};

}  // namespace

std::optional<std::string> lowered_digest(const Program& program, std::span<const ActionLoops> lists) {
  PlacedWords words(program, lists);
  LoopHeads heads(lists);
  HandedOver inputs(program);
  const TurnsTaken taken = TurnTaking(program, heads, inputs, words).run();
  if (!taken.finished || !taken.stuck.empty()) return std::nullopt;
  DigestOfLists told(program);
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank)
    words.tell(rank, lists[index(rank)].begin(), told);
  return std::move(told).text();
}

}  // namespace penstock
