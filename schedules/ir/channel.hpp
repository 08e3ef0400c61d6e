#pragma once
// Defines the channel models. A channel model says which transfers of a rank share a FIFO queue.
// channel_check.hpp checks that a program cannot hang under a model. The engines of sim/ and the
// transports of backend/ follow the model.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The rules that say which transfers of a rank share a FIFO queue. They are ordered by the number of queues,
/// the fewest first.
enum class ChannelModel : std::uint8_t {
  rank,       // one FIFO for each rank
  pair,       // one FIFO for each pair of ranks, for both directions, as in ProcessGroupNCCL
  direction,  // two FIFOs for each rank: one for activations, one for gradients
  directed,   // one FIFO for each ordered pair of ranks
  boundary,   // one FIFO for each stage edge and direction
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

/// The transfers for which a rank waits before it continues in its list.
enum class Blocking : std::uint8_t {
  none,     // the rank waits for no transfer; a compute action waits for its own RECVs
  each,     // the rank waits for each SEND and RECV, one after the other
  batched,  // the rank posts all SENDs and RECVs between two compute actions together, and waits for them all
};
template <>
inline constexpr auto kEnumWords<Blocking> = std::to_array<EnumWord<Blocking>>(
    {{Blocking::none, "false"}, {Blocking::each, "true"}, {Blocking::batched, "batched"}});

/// Returns the text that follows the name of a channel model: ", blocking" or ", batched". Returns an empty
/// text if ranks wait for no transfer.
constexpr std::string_view blocking_suffix(Blocking blocking) {
  switch (blocking) {
    case Blocking::none:
      return "";
    case Blocking::each:
      return ", blocking";
    case Blocking::batched:
      return ", batched";
  }
  return "";
}

/// The properties of a transport that influence the order and the times of messages.
struct ChannelOptions {
  ChannelModel model = ChannelModel::directed;
  /// The transfers for which a rank waits before it continues in its list.
  Blocking blocking = Blocking::none;
  /// The number of messages that a queue can hold; 0 means unlimited. With capacity c, RECV k of a queue
  /// waits for the message of RECV k - c. The F, B or I that reads this message must have ended.
  std::int64_t capacity = 0;
  /// The eager size in bytes. A message smaller than this starts without waiting for its receiver.
  std::int64_t eager_bytes = 0;
  /// True if the transfers of a rank start in the order in which the rank launched them, over all its
  /// queues (NCCL_LAUNCH_ORDER_IMPLICIT=1). This order delays transfers, and can make a program hang. It
  /// has no effect if a rank waits for its transfers, because then it launches no later transfer meanwhile.
  bool launch_order = false;

  /// Returns true if a rank waits for its transfers, one after the other or in groups.
  constexpr bool waits() const { return blocking != Blocking::none; }

  friend bool operator==(const ChannelOptions&, const ChannelOptions&) = default;
};

// The table of transports states the order and the capacity that each transport guarantees. The transports
// themselves are in backend/. The table is here, so that a program can be checked and predicted for a
// transport that is not built.

/// One row of the table of transports: a name, and the channel options that it stands for.
struct TransportInfo {
  std::string_view name;
  /// The description of the transport in help texts, in one line.
  std::string_view summary;
  ChannelOptions channels;
};
/// Returns all rows of the table of transports.
std::span<const TransportInfo> transport_table();

/// Returns the row with this name, or null if there is none. Ignores case, '-' and '_'.
const TransportInfo* find_transport(std::string_view name);

}  // namespace penstock
