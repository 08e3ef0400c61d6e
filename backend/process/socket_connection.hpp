#pragma once
// One connection of a SocketLoop. It sends frames in chunks, over TCP each with a proof. All of it runs on
// the loop's thread. Used only by socket_loop.cpp.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/system/error_code.hpp>

#include "backend/process/message_proof.hpp"
#include "backend/process/socket_loop.hpp"

namespace penstock {

/// The first bytes that each end sends over TCP.
struct Opening {
  static constexpr std::uint64_t kMagic = 0x32'6b'63'6f'74'73'6e'70;  // "pnstock2"

  std::uint64_t magic = kMagic;
  Nonce nonce{};
};
static_assert(sizeof(Opening) == 40, "it has no padding");

struct ChunkHeader {
  std::uint32_t length = 0;
  std::uint32_t is_last = 0;
};

/// The word that a listener sends to a stranger in place of a chunk's header. It cannot be a header, because
/// as a length it exceeds a chunk. It needs no proof and is always the same, so it reveals no more than the
/// end of the connection does.
inline constexpr std::string_view kRefusal = "refused\n";
static_assert(sizeof(ChunkHeader) == kRefusal.size(), "one is read where the other is expected");

/// Ignores an error of an optional socket option, or of a socket that is closed anyway.
inline void tolerate(const boost::system::error_code&) {}

/// One connection. It is shared, because its buffers must live until the operations in progress have ended.
class SocketConnection : public std::enable_shared_from_this<SocketConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  /// The owner's functions. `received` may close the connection.
  struct Owner {
    std::string secret{};  ///< the secret that proofs use
    std::function<void(ConnectionId, Frame)> received;
    std::function<std::size_t(ConnectionId, const Frame&)> most_bytes;  ///< see SocketEvents
    /// Called when the connection can no longer be read. The owner must close it.
    std::function<void(ConnectionId, Closing)> lost;
  };

  /// `side` is absent for an end of a socket pair, which needs no proofs. `owner` must outlive this object.
  SocketConnection(ConnectionId id, Socket socket, std::optional<Side> side, const Owner& owner);

  /// Starts to read.
  void begin();
  void send(Frame frame);
  /// Tells a stranger that it is refused, if that can be written at once. The owner then closes the
  /// connection.
  void refuse();
  void close();

  ConnectionId id() const { return id_; }
  /// Returns whether the other end is known. A caller has chosen the other end; a listener knows it only
  /// after the first proof.
  bool is_proven() const { return proven_; }
  std::chrono::steady_clock::time_point since() const { return since_; }

 private:
  using Error = boost::system::error_code;

  bool must_prove() const { return side_.has_value(); }
  // Each of these starts an operation and names the next one: open, read_opening, then read_header and
  // read_chunk in turn. Writing runs in parallel, from write_next to has_written.
  void open();
  void read_opening();
  /// Makes the keys of both directions. Requires both nonces.
  void agree();
  void read_header();
  void read_chunk();
  void take_chunk();
  /// Returns whether the chunk has the expected proof.
  bool has_valid_proof();
  void append_chunk();
  void write_next();
  void has_written();
  std::function<void(const Error&, std::size_t)> unless_closed(std::function<void(const Error&)> handler);

  ConnectionId id_;
  Socket socket_;
  std::optional<Side> side_;
  const Owner& owner_;
  bool proven_;
  bool closed_ = false;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  Opening own_{};
  Opening others_{};
  std::unique_ptr<MessageProof> sent_proof_{};  // null until both nonces are known
  std::unique_ptr<MessageProof> received_proof_{};

  ChunkHeader header_{};
  Frame chunk_{};
  Proof proof_{};
  Frame frame_{};  // the part of the frame that has arrived

  std::deque<Frame> outgoing_{};
  std::size_t written_ = 0;  // bytes of the first frame that are written
  ChunkHeader sent_header_{};
  Proof sent_chunk_proof_{};
};

}  // namespace penstock
