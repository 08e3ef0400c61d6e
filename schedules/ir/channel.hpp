#pragma once
// Channel models: which transfers of a rank queue behind each other, and what a transport promises.
// channel_check.hpp proves under a model that a program cannot hang. The engines of sim/ and backend/ follow
// the model.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The sets of first-in-first-out queues that a rank can have for its transfers, from the fewest queues to
/// the most.
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

/// The properties of a transport on which order and time depend.
struct ChannelOptions {
  ChannelModel model = ChannelModel::directed;
  /// True if a rank's program order waits for each transfer to end.
  bool blocking = false;
  /// The capacity of a queue. RECV k waits until the F, B or I that reads RECV k-capacity has ended. 0 means
  /// unlimited.
  std::int64_t capacity = 0;
  /// The eager size. Messages below it start without the receiver.
  std::int64_t eager_bytes = 0;
  /// True if a rank's transfers start in the order in which the rank has launched them, over all its queues
  /// (NCCL_LAUNCH_ORDER_IMPLICIT=1). This affects only which programs can hang, not their times. It changes
  /// nothing for blocking channels, where a rank has one transfer at a time.
  bool launch_order = false;

  friend bool operator==(const ChannelOptions&, const ChannelOptions&) = default;
};

}  // namespace penstock
