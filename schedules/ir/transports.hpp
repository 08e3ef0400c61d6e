#pragma once
// The table of transports, with the order and the capacity that each transport guarantees. The table is not
// in backend/, so that a program can be checked and predicted for a transport that is not built. The
// transports themselves are in backend/.

#include <span>
#include <string_view>

#include "schedules/ir/channel.hpp"

namespace penstock {

/// One row of the table.
struct TransportInfo {
  std::string_view name;
  /// The description for help texts, in one line.
  std::string_view summary;
  ChannelOptions channels;
};
/// Returns all rows of the table.
std::span<const TransportInfo> transport_table();

/// Returns the row with this name, or null if there is none. Ignores case, '-' and '_'.
const TransportInfo* find_transport(std::string_view name);

}  // namespace penstock
