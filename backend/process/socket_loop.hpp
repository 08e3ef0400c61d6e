#pragma once
// Frames of bytes between processes: listening, connecting and all reading and writing, done by whichever
// thread runs the loop. Connections over TCP are taken from those alone that prove every chunk with the
// job's secret (message_proof.hpp); socket pairs that were made before a fork need no proof, since nobody
// else can reach them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace penstock {

/// What one side sends and the other receives, whole and in order.
using Frame = std::vector<std::uint8_t>;

/// A host's name or address, and a TCP port.
struct Endpoint {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};
/// "127.0.0.1:29500".
std::string to_text(const Endpoint& endpoint);

/// One connection of a loop.
using ConnectionId = std::int32_t;

/// Why a connection has closed.
enum class Closing : std::uint8_t {
  by_peer,      // or by the network, without a word of refusal
  refused,      // by the listener, to which this side has proved nothing
  no_proof,     // what came was no proof of the secret
  not_a_frame,  // longer than it may be, or no chunk at all
};

/// What a loop tells; called by the thread that runs it.
struct SocketEvents {
  std::function<void(ConnectionId, Frame)> received;
  /// Once a connection, and never of a stranger: somebody who connected here and has proved nothing.
  std::function<void(ConnectionId, Closing)> closed;
  /// How long the frame may be that begins with this first chunk of kChunkBytes.
  std::function<std::size_t(ConnectionId, const Frame&)> most_bytes;
};

/// Frames travel in chunks of so many bytes; only the last one is shorter.
inline constexpr std::size_t kChunkBytes = 65'536;

/// All but run_until() may be called from any thread. Its destruction closes all connections, whatever waits
/// to be written.
class SocketLoop {
 public:
  explicit SocketLoop(SocketEvents events);
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;
  ~SocketLoop();

  /// Both ends of every TCP connection must have the same one. Before the loop first runs.
  void prove_with(std::string secret);
  /// Takes the address. Port 0: any free one. Returns where listen() will listen.
  tl::expected<Endpoint, std::string> bind(const Endpoint& where);
  /// Accepts connections from now on. After bind().
  tl::expected<void, std::string> listen();
  /// Tries until `until` while nobody listens there, or until `stopped`, which is asked again and again and
  /// may be empty.
  tl::expected<ConnectionId, std::string> connect(const Endpoint& to,
                                                  std::chrono::steady_clock::time_point until,
                                                  const std::function<bool()>& stopped = {});
  /// One end of a socket pair, which is the loop's from now on.
  ConnectionId adopt(int descriptor);
  /// This host's address on a connection that connect() made.
  std::string local_address(ConnectionId connection) const;
  /// Of a connection that connect() made, while the loop does not run: the other side ends it within the
  /// time.
  bool ends_within(ConnectionId connection, std::chrono::milliseconds time) const;

  /// Never waits. Frames for a connection that has closed are dropped.
  void send(ConnectionId connection, Frame frame);
  /// Drops what waits to be written. `closed` is not called.
  void close(ConnectionId connection);

  /// Handles what happens until then, at least all that has happened by now.
  void run_until(std::chrono::steady_clock::time_point until);
  /// Makes run_until() return.
  void interrupt();
  /// How many have connected here, proved nothing and been turned away.
  std::int64_t strangers() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace penstock
