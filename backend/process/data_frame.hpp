#pragma once
// The frames that workers send each other while a program runs: a fixed header and the payload's bytes.

#include <cstdint>
#include <optional>
#include <span>

#include "backend/process/socket_loop.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct DataHeader {
  std::int32_t run = 0;
  std::int32_t message = 0;  ///< number in the flat program
  std::int32_t from_rank = 0;
  std::int32_t has_payload = 0;  ///< 0: the payload is null
  Ns start_ns = 0;               ///< start of a transfer; of a collective the moment when this member joined
  Ns end_ns = 0;                 ///< arrival of a transfer
};

/// Returns the bytes of a frame. has_payload must be 1 if `payload` is not empty.
Frame packed(const DataHeader& header, std::span<const std::uint8_t> payload);

/// A view of a frame. It refers to the frame's bytes.
struct DataView {
  DataHeader header;
  std::span<const std::uint8_t> payload;
};
/// Returns nothing if the frame is too short.
std::optional<DataView> unpacked(const Frame& frame);

}  // namespace penstock
