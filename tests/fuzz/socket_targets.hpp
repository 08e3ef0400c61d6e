#pragma once
// Bytes that come over a socket, as a SocketLoop reads them: from the other end of a socket pair, and from
// whoever connects. Each throws std::logic_error where a sentence does not hold.

#include <cstdint>
#include <span>

namespace penstock {

/// `bytes` are up to 16 chunks: a chunk's header, the number of bytes that follow of its body, and these. The
/// rest of a body, up to two chunks long, is zeros, but for the last one, which may be cut off. The frames
/// are those that the chunks make, and none is longer than it may be.
void read_socket_frames(std::span<const std::uint8_t> bytes);

/// Somebody without the secret, who says the bytes behind the first; where that is odd, behind an opening
/// that is right. Nothing is received, and they hear no more than an opening and the word of refusal.
void meet_stranger(std::span<const std::uint8_t> bytes);

}  // namespace penstock
