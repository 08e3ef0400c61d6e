#pragma once
// Frames of bytes over TCP: listening, connecting and all reading and writing, done by whichever thread runs
// the loop.

#include <chrono>
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

/// What a loop tells; called by the thread that runs it.
struct SocketEvents {
  std::function<void(ConnectionId, Frame)> received;
  /// The other side closed it, or what came was no frame. Once a connection.
  std::function<void(ConnectionId)> closed;
};

/// All but run_until() may be called from any thread. Its destruction closes all connections, whatever waits
/// to be written.
class SocketLoop {
 public:
  explicit SocketLoop(SocketEvents events);
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;
  ~SocketLoop();

  /// Accepts connections from now on. Port 0: any free one. Returns where it listens.
  tl::expected<Endpoint, std::string> listen(const Endpoint& where);
  /// Tries until `until` while nobody listens there.
  tl::expected<ConnectionId, std::string> connect(const Endpoint& to,
                                                  std::chrono::steady_clock::time_point until);
  /// This host's address on a connection that connect() made.
  std::string local_address(ConnectionId connection) const;

  /// Never waits. Frames for a connection that has closed are dropped.
  void send(ConnectionId connection, Frame frame);
  /// Drops what waits to be written. `closed` is not called.
  void close(ConnectionId connection);

  /// Handles what happens until then, at least all that has happened by now.
  void run_until(std::chrono::steady_clock::time_point until);
  /// Makes run_until() return.
  void interrupt();

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace penstock
