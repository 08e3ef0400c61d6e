#pragma once
// The table of transports: what each promises about order and room, so that a program can be checked and
// predicted for a transport that is not there. backend/ holds the transports themselves.

#include <span>
#include <string_view>

#include "schedules/ir/channel.hpp"

namespace penstock {

/// One row.
struct TransportInfo {
  std::string_view name;
  std::string_view summary;  ///< one line for help texts
  ChannelOptions channels;
};
std::span<const TransportInfo> transport_table();

/// The row of that name (case, '-' and '_' are ignored); null when there is none.
const TransportInfo* find_transport(std::string_view name);

}  // namespace penstock
