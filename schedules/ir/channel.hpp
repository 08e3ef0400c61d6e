#pragma once
// Channel models: which transfers of a rank queue behind each other, and what a transport promises.
// channel_check.hpp proves a program under a model; the engines of sim/ and backend/ follow it.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

/// How many first-in-first-out queues of transfers a rank has, from the fewest to the most.
enum class ChannelModel : std::uint8_t {
  rank,       // one FIFO a rank
  pair,       // one per unordered pair of ranks (ProcessGroupNCCL: one stream per src:dst pair)
  direction,  // one activation and one gradient FIFO a rank
  directed,   // one per ordered pair of ranks (a communicator per directed edge)
  boundary,   // one per stage edge and direction
};

inline constexpr std::array kChannelModels = {ChannelModel::rank, ChannelModel::pair, ChannelModel::direction,
                                              ChannelModel::directed, ChannelModel::boundary};

std::string_view to_text(ChannelModel model);
std::optional<ChannelModel> channel_model_of_text(std::string_view text);

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
