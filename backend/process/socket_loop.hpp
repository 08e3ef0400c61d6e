#pragma once
// Exchanges frames of bytes between processes: listening, connecting, reading and writing, all on the thread
// that runs the loop. TCP connections are accepted only if every chunk proves that its sender knows the job's
// secret (message_proof.hpp). Socket pairs that were made before a fork need no proof, because no other
// process can reach them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// The bytes that one side sends and the other receives, whole and in order.
using Frame = std::vector<std::uint8_t>;

/// A host's name or address, and a TCP port.
struct Endpoint {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
/// Returns, for example, "127.0.0.1:29500".
std::string to_text(const Endpoint& endpoint);

/// The number of a connection in its loop.
using ConnectionId = std::int32_t;

/// The reason why a connection has closed.
enum class Closing : std::uint8_t {
  by_peer,      // by the other side or the network, without a refusal
  refused,      // by the listener, to which this side has proved nothing
  no_proof,     // the message had no valid proof
  not_a_frame,  // the frame was longer than allowed, or the bytes were no chunk
};

/// The functions that a loop calls on the thread that runs it.
struct SocketEvents {
  std::function<void(ConnectionId, Frame)> received;
  /// Called once for each connection, but never for a stranger: a process that connected and proved nothing.
  std::function<void(ConnectionId, Closing)> closed;
  /// Returns the limit of a frame that begins with this first chunk of kChunkBytes.
  std::function<std::size_t(ConnectionId, const Frame&)> most_bytes;
};

/// Size of a chunk. Frames are sent in chunks of this size; only the last one is shorter.
inline constexpr std::size_t kChunkBytes = 65'536;

/// The connections of one process. All members except run_until() may be called from any thread. The
/// destructor closes all connections and drops frames that are not written yet.
class SocketLoop {
 public:
  explicit SocketLoop(SocketEvents events);
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;
  ~SocketLoop();

  /// Sets the secret, which both ends of every TCP connection must share. Must be called before the loop
  /// first runs.
  void prove_with(std::string secret);
  /// Reserves the address. Port 0 means any free port. Returns the address at which listen() will listen.
  tl::expected<Endpoint, std::string> bind(const Endpoint& where);
  /// Accepts connections from now on. Requires a call of bind().
  tl::expected<void, std::string> listen();
  /// Connects to a listener. While none listens there, it tries again until `until`, or until `stopped`
  /// returns true. `stopped` may be empty.
  tl::expected<ConnectionId, std::string> connect(const Endpoint& to,
                                                  std::chrono::steady_clock::time_point until,
                                                  const std::function<bool()>& stopped = {});
  /// Takes ownership of one end of a socket pair.
  ConnectionId adopt(int descriptor);
  /// Returns this host's address on a connection that connect() made.
  std::string local_address(ConnectionId connection) const;
  /// Returns whether the other side ends a connection of connect() within the time. Must be called while the
  /// loop does not run.
  bool ends_within(ConnectionId connection, std::chrono::milliseconds time) const;

  /// Sends a frame. Never waits. Frames for a closed connection are dropped.
  void send(ConnectionId connection, Frame frame);
  /// Closes the connection and drops frames that are not written yet. `closed` is not called.
  void close(ConnectionId connection);

  /// Handles events until then, and at least all that have already happened.
  void run_until(std::chrono::steady_clock::time_point until);
  /// Makes run_until() return.
  void interrupt();
  /// Returns how many processes have connected here, proved nothing and were refused.
  std::int64_t strangers() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace penstock
