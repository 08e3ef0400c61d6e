#pragma once
// One connection of a SocketLoop. It sends frames (messages as bytes) in chunks. Over TCP, each chunk has
// a proof, a code that shows that the sender knows the job's secret. All functions run on the loop's
// thread. Only socket_loop.cpp uses it.

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

#include "backend/process/job_secret.hpp"
#include "backend/process/socket_loop.hpp"

namespace penstock {

/// The first bytes that each end of a TCP connection sends.
struct Opening {
  static constexpr std::uint64_t kMagic = 0x32'6b'63'6f'74'73'6e'70;  // the letters "pnstock2"

  std::uint64_t magic = kMagic;
  Nonce nonce{};
};
static_assert(sizeof(Opening) == 40, "it has no padding");

struct ChunkHeader {
  std::uint32_t length = 0;
  std::uint32_t is_last = 0;
};

/// The text that a listener sends to a process that it refuses. It is sent where the header of a chunk is
/// expected. As a header, it would state a length above one chunk, so it cannot be confused with a header.
/// It needs no authentication code, because it is always the same and reveals nothing.
inline constexpr std::string_view kRefusal = "refused\n";
static_assert(sizeof(ChunkHeader) == kRefusal.size(), "one is read where the other is expected");

/// Ignores an error. The caller uses it for optional socket options, and for sockets that are closed in any
/// case.
inline void tolerate(const boost::system::error_code&) {}

/// A connection to another process. It is reference-counted, because its buffers must exist until all
/// operations in progress have ended.
class SocketConnection : public std::enable_shared_from_this<SocketConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  /// The functions and the secret of the object that owns the connection. `received` may close the
  /// connection.
  struct Owner {
    std::string secret{};  ///< the job's secret, from which proofs are computed
    std::function<void(ConnectionId, Frame)> received;
    std::function<std::size_t(ConnectionId, const Frame&)> most_bytes;  ///< see SocketEvents::most_bytes
    /// A function that is called when no more data can be read from the connection. The owner must then
    /// close the connection.
    std::function<void(ConnectionId, Closing)> lost;
  };

  /// Makes a connection over `socket`. `side` says which end this process has. It is absent for an end of a
  /// socket pair, which needs no authentication. `owner` must outlive this object.
  SocketConnection(ConnectionId id, Socket socket, std::optional<Side> side, const Owner& owner);

  /// Starts to read from the socket.
  void begin();
  void send(Frame frame);
  /// Tells the other process that it is refused. Does nothing if the socket cannot accept this text at
  /// once. The owner must then close the connection.
  void refuse();
  void close();

  ConnectionId id() const { return id_; }
  /// Returns true if this process trusts the other end. A caller trusts the listener that it has called. A
  /// listener trusts a caller after the first valid authentication code.
  bool is_proven() const { return proven_; }
  std::chrono::steady_clock::time_point since() const { return since_; }

 private:
  using Error = boost::system::error_code;

  bool must_prove() const { return side_.has_value(); }
  // Each of these functions starts an asynchronous operation, which calls the next function when it ends. The
  // order is open, read_opening, and then read_header and read_chunk repeatedly. Writing runs at the same
  // time, from write_next to has_written.
  void open();
  void read_opening();
  /// Computes the authentication keys of both directions. Requires that both nonces are known.
  void agree();
  void read_header();
  void read_chunk();
  void take_chunk();
  /// Returns true if the chunk that was read has the expected authentication code.
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
  // The generator of proofs for sent chunks, or null until both nonces are known.
  std::unique_ptr<MessageProof> sent_proof_{};
  std::unique_ptr<MessageProof> received_proof_{};

  ChunkHeader header_{};
  Frame chunk_{};
  Proof proof_{};
  Frame frame_{};  // received part of the present frame

  std::deque<Frame> outgoing_{};
  std::size_t written_ = 0;  // number of bytes of the first outgoing frame that are written
  ChunkHeader sent_header_{};
  Proof sent_chunk_proof_{};
};

}  // namespace penstock
