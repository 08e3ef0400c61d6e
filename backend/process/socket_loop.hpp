#pragma once
// Exchanges frames of bytes between processes. One thread runs the loop, which listens, connects, reads and
// writes. Over TCP, every chunk must prove that its sender knows the job's secret (job_secret.hpp). Socket
// pairs that were made before a fork need no proof, because no other process can reach them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/system/error_code.hpp>
#include <tl/expected.hpp>

#include "backend/process/job_secret.hpp"

namespace penstock {

/// The bytes of one message. The receiver gets each frame as a whole and in the order of sending.
using Frame = std::vector<std::uint8_t>;

/// A host's name or address, and a TCP port.
struct Endpoint {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
/// Returns the endpoint as text, such as "127.0.0.1:29500".
std::string to_text(const Endpoint& endpoint);

/// The number that a SocketLoop gives to one of its connections.
using ConnectionId = std::int32_t;

/// The reason why a connection has closed.
enum class Closing : std::uint8_t {
  by_peer,      // the other side or the network closed it, without a refusal
  refused,      // the listener refused this side, which had not proved the secret
  no_proof,     // a received message had no valid proof
  not_a_frame,  // a received frame was longer than allowed, or the bytes were not a chunk
};

/// The functions that a SocketLoop calls. It calls them on the thread that runs it.
struct SocketEvents {
  std::function<void(ConnectionId, Frame)> received;
  /// A function that is called once when a connection closes. It is not called for a process that connected
  /// but never proved that it knows the secret.
  std::function<void(ConnectionId, Closing)> closed;
  /// Returns the largest allowed size in bytes of a frame whose first chunk of kChunkBytes is this one.
  std::function<std::size_t(ConnectionId, const Frame&)> most_bytes;
};

/// The size of a chunk in bytes. Frames are sent in chunks of this size. Only the last chunk of a frame may
/// be shorter.
inline constexpr std::size_t kChunkBytes = 65'536;

/// The connections of one process. Any thread may call its functions, except run_until(). The destructor
/// closes all connections and drops frames that are not written yet.
class SocketLoop {
 public:
  explicit SocketLoop(SocketEvents events);
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;
  ~SocketLoop();

  /// Sets the secret that both ends of every TCP connection must know. Must be called before the loop first
  /// runs.
  void prove_with(std::string secret);
  /// Reserves the address `where`, at which listen() will accept connections. If its port is 0, chooses a
  /// free port. Returns the address.
  tl::expected<Endpoint, std::string> bind(const Endpoint& where);
  /// Starts to accept connections. Requires that bind() was called.
  tl::expected<void, std::string> listen();
  /// Connects to a listener. While no process listens there, tries again until the time `until`, or until
  /// `stopped` returns true. `stopped` may be empty.
  tl::expected<ConnectionId, std::string> connect(const Endpoint& to,
                                                  std::chrono::steady_clock::time_point until,
                                                  const std::function<bool()>& stopped = {});
  /// Takes ownership of one end of a socket pair and returns its connection.
  ConnectionId adopt(int descriptor);
  /// Returns the address of this host that the connection uses. Requires a connection that connect() made.
  std::string local_address(ConnectionId connection) const;
  /// Returns true if the other side closes the connection within `time`. Requires a connection that
  /// connect() made. Must be called while the loop does not run.
  bool ends_within(ConnectionId connection, std::chrono::milliseconds time) const;

  /// Sends a frame over the connection. Never waits. Drops the frame if the connection is closed.
  void send(ConnectionId connection, Frame frame);
  /// Closes the connection and drops frames that are not written yet. Does not call SocketEvents::closed.
  void close(ConnectionId connection);

  /// Handles events until the time `until`. It handles at least all events that have already happened.
  void run_until(std::chrono::steady_clock::time_point until);
  /// Makes run_until() return early.
  void interrupt();
  /// Returns the number of processes that have connected and were refused because they did not prove that
  /// they know the secret.
  std::int64_t strangers() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

// One connection of a SocketLoop. It sends frames (messages as bytes) in chunks. Over TCP, each chunk has
// a proof, a code that shows that the sender knows the job's secret. All functions run on the loop's
// thread. Only socket_loop.cpp uses it.

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

/// Ignores an error. The caller uses it for optional socket options, and for sockets that will be closed
/// anyway.
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
