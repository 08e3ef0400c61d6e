// A frame is 32 bytes of numbers followed by the payload. The numbers are not encoded further, because the
// run's time includes the sending. Hosts with different byte orders refuse each other when they connect
// (socket_connection.hpp).

#include "backend/process/data_frame.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "backend/process/socket_loop.hpp"

namespace penstock {

static_assert(std::is_trivially_copyable_v<DataHeader> && sizeof(DataHeader) == 32, "it has no padding");

Frame packed(const DataHeader& header, std::span<const std::uint8_t> payload) {
  Frame frame(sizeof(DataHeader) + payload.size());
  std::memcpy(frame.data(), &header, sizeof(DataHeader));
  std::ranges::copy(payload, frame.begin() + sizeof(DataHeader));
  return frame;
}

std::optional<DataView> unpacked(const Frame& frame) {
  if (frame.size() < sizeof(DataHeader)) return std::nullopt;
  DataView view;
  std::memcpy(&view.header, frame.data(), sizeof(DataHeader));
  view.payload = std::span(frame).subspan(sizeof(DataHeader));
  return view;
}

}  // namespace penstock
