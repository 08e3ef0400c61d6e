#pragma once
// Exchanges frames of bytes between processes. One thread runs the loop, which listens, connects, reads and
// writes. Over TCP, every chunk must prove that its sender knows the job's secret (job_secret.hpp). Socket
// pairs that were made before a fork need no proof, because no other process can reach them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

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

}  // namespace penstock
