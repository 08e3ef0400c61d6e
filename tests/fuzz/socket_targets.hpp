#pragma once
// Targets in which a SocketLoop reads bytes from a socket: from the other end of a socket pair, and from a
// process that connects. Each function throws std::logic_error if a requirement fails.

#include <cstdint>
#include <span>

namespace penstock {

/// Reads frames. `bytes` describes up to 16 chunks. Each has a chunk header, the number of stated bytes of
/// its body, and these bytes. The rest of the body is zeros, and the last body may be cut off. Checks that
/// the received frames are those of the chunks, and that no frame is too long.
void read_socket_frames(std::span<const std::uint8_t> bytes);

/// Connects without the secret and sends all bytes after the first one. If the first byte is odd, a correct
/// opening is sent before them. Checks that the loop receives no frame, and that it answers only with an
/// opening and a refusal.
void meet_stranger(std::span<const std::uint8_t> bytes);

}  // namespace penstock
