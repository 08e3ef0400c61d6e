#pragma once
// One connection of a SocketLoop: its frames in chunks, each with a proof where it is over TCP. All of it
// runs on the thread that runs the loop. Private to socket_loop.cpp.

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

/// What each end says first over TCP, whoever it is.
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

/// What a listener says to whom it turns away, in place of a chunk's header, which it cannot be: as a length
/// it is beyond a chunk. It proves nothing and is the same whatever it was that came, so that it tells no
/// more than the end of the connection does.
inline constexpr std::string_view kRefusal = "refused\n";
static_assert(sizeof(ChunkHeader) == kRefusal.size(), "one is read where the other is expected");

/// Of a socket that does without the option, or that is closed whatever happens.
inline void tolerate(const boost::system::error_code&) {}

/// Shared, because what it reads to and writes from must live until the operations under way have ended.
class SocketConnection : public std::enable_shared_from_this<SocketConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  /// Whoever owns it. `received` may close the connection.
  struct Owner {
    std::string secret{};  ///< for proofs
    std::function<void(ConnectionId, Frame)> received;
    std::function<std::size_t(ConnectionId, const Frame&)> most_bytes;  ///< as in SocketEvents
    /// It is not read any further; closing it is the owner's.
    std::function<void(ConnectionId, Closing)> lost;
  };

  /// `side` nothing: an end of a socket pair, where nothing is proved. `owner` must outlive it.
  SocketConnection(ConnectionId id, Socket socket, std::optional<Side> side, const Owner& owner);

  /// Starts to read.
  void begin();
  void send(Frame frame);
  /// Tells a stranger that it is turned away, where that can be written at once. To be closed then.
  void refuse();
  void close();

  ConnectionId id() const { return id_; }
  /// A caller has chosen whom it calls; who calls is a stranger at first.
  bool is_proven() const { return proven_; }
  std::chrono::steady_clock::time_point since() const { return since_; }

 private:
  using Error = boost::system::error_code;

  bool must_prove() const { return side_.has_value(); }
  // Each starts an operation and names the next one: open, read_opening, then read_header and read_chunk by
  // turns. What is written goes beside that, from write_next to has_written.
  void open();
  void read_opening();
  /// Both nonces are known: makes the keys of both directions.
  void agree();
  void read_header();
  void read_chunk();
  void take_chunk();
  /// The chunk carries the proof that is due.
  bool is_from_a_friend();
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
  Frame frame_{};  // what has come of it

  std::deque<Frame> outgoing_{};
  std::size_t written_ = 0;  // of the first of them
  ChunkHeader sent_header_{};
  Proof sent_chunk_proof_{};
};

}  // namespace penstock
