#pragma once
// The frames that workers send to each other while a program runs. A frame is a fixed header followed by the
// payload's bytes.

#include <cstdint>
#include <optional>
#include <span>

#include "backend/process/socket_loop.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct DataHeader {
  std::int32_t run = 0;
  std::int32_t message = 0;  ///< number of the message in the flat program
  std::int32_t from_rank = 0;
  std::int32_t has_payload = 0;  ///< 1 if the frame has a payload, 0 if the payload is null
  Ns start_ns = 0;               ///< start of a transfer, or the time when this rank joined a collective
  Ns end_ns = 0;                 ///< time when a transfer arrives; not used for collectives
};

/// Returns the bytes of a frame. header.has_payload must be 1 if `payload` is not empty.
Frame packed(const DataHeader& header, std::span<const std::uint8_t> payload);

/// The header and the payload of a frame. `payload` refers to the bytes of the frame.
struct DataView {
  DataHeader header;
  std::span<const std::uint8_t> payload;
};
/// Returns the parts of a frame, or nothing if the frame is shorter than a header.
std::optional<DataView> unpacked(const Frame& frame);

}  // namespace penstock
