#pragma once
// What workers send each other while a program runs: a fixed header and the payload's bytes.

#include <cstdint>
#include <optional>
#include <span>

#include "backend/process/socket_loop.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

struct DataHeader {
  std::int32_t run = 0;
  std::int32_t message = 0;  ///< of the flat program
  std::int32_t from_rank = 0;
  std::int32_t has_payload = 0;  ///< 0: a null payload
  Ns start_ns = 0;               ///< of a transfer; of a collective the moment when this member joined
  Ns end_ns = 0;                 ///< of a transfer: its arrival
};

/// Requires has_payload = 1 where `payload` is not empty.
Frame packed(const DataHeader& header, std::span<const std::uint8_t> payload);

/// Refers to the frame.
struct DataView {
  DataHeader header;
  std::span<const std::uint8_t> payload;
};
/// Nothing when the frame is too short.
std::optional<DataView> unpacked(const Frame& frame);

}  // namespace penstock
