#pragma once
// Channel models: which transfers of a rank queue behind each other, and what a transport promises.
// channel_check.hpp proves a program under a model; the engines of sim/ and backend/ follow it.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// How many first-in-first-out queues of transfers a rank has, from the fewest to the most.
enum class ChannelModel : std::uint8_t {
  rank,       // one FIFO a rank
  pair,       // one per unordered pair of ranks (ProcessGroupNCCL: one stream per src:dst pair)
  direction,  // one activation and one gradient FIFO a rank
  directed,   // one per ordered pair of ranks (a communicator per directed edge)
  boundary,   // one per stage edge and direction
};
template <>
inline constexpr auto kEnumWords<ChannelModel> =
    std::to_array<EnumWord<ChannelModel>>({{ChannelModel::rank, "rank"},
                                           {ChannelModel::pair, "pair"},
                                           {ChannelModel::direction, "direction"},
                                           {ChannelModel::directed, "directed"},
                                           {ChannelModel::boundary, "boundary"}});

inline constexpr std::array kChannelModels = {ChannelModel::rank, ChannelModel::pair, ChannelModel::direction,
                                              ChannelModel::directed, ChannelModel::boundary};

/// What moves messages between ranks, as far as order and time depend on it.
struct ChannelOptions {
  ChannelModel model = ChannelModel::directed;
  bool blocking = false;         ///< program order waits for each transfer
  std::int64_t capacity = 0;     ///< RECV k waits for the F, B or I that reads RECV k-capacity; 0: unlimited
  std::int64_t eager_bytes = 0;  ///< messages below this size need only the sender's end
  /// What a rank has launched later starts no earlier, over all its queues (NCCL_LAUNCH_ORDER_IMPLICIT=1). A
  /// rule of who can hang; times do not know it. Nothing is added to blocking channels, which have one
  /// transfer of a rank under way.
  bool launch_order = false;

  friend bool operator==(const ChannelOptions&, const ChannelOptions&) = default;
};

}  // namespace penstock
