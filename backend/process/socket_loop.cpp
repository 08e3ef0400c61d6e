// Runs all connections of a process on one thread, with Boost.Asio. All code that uses a connection runs as a
// handler of the io_context, so no lock is needed. Calls from other threads are posted to the io_context in
// their order:
//
//     rank's thread    send(f)          send(g)               both return at once
//     loop's thread        `-> [f]          `-> [f g]         frames of one connection, one write at a time
//
// socket_connection.cpp has the protocol of each connection. Tests: tests/backend/socket_transport_test.cpp.

#include "backend/process/socket_loop.hpp"

#include <sys/poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <tl/expected.hpp>

#include "backend/process/job_secret.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPauseBetweenTries(10);
/// The time within which a new connection must prove that it knows the secret. The proof comes with its first
/// message, after one round trip. On a busy host this may take seconds.
constexpr std::chrono::milliseconds kTimeToProve(5000);
/// The time for which an unproven connection may send nothing while other connections wait to be accepted. A
/// connection is unproven until it has proved that it knows the secret.
constexpr std::chrono::milliseconds kTimeInCrowd(250);
/// The largest number of connections that have not yet proved that they know the secret. It is small,
/// because ranks need most descriptors of the process (process_run.cpp counts them).
constexpr std::size_t kMostUnproven = 128;
/// The number of handlers of each connection that may still run after a deadline has passed. A frame needs
/// a few handlers.
constexpr std::size_t kMostLateOfEach = 16;

}  // namespace

std::string to_text(const Endpoint& endpoint) {
  const std::string address = shown_name(endpoint.address);
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, endpoint.port)
                                                : fmt::format("[{}]:{}", address, endpoint.port);
}

struct SocketLoop::Parts {
  explicit Parts(SocketEvents told)
      : events(std::move(told)),
        owner({.received = events.received,
               .most_bytes = events.most_bytes,
               .lost = [this](ConnectionId id, Closing why) { lose(id, why); }}) {}

  /// Creates a connection for the socket. May run on any thread, but begin() must run on the loop's thread.
  std::shared_ptr<SocketConnection> made(SocketConnection::Socket socket, std::optional<Side> side) {
    return std::make_shared<SocketConnection>(++last_id, std::move(socket), side, owner);
  }

  void begin(const std::shared_ptr<SocketConnection>& connection) {
    connections.emplace(connection->id(), connection);
    connection->begin();
  }

  void accept_next() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      // operation_aborted means that the loop has ended. Any other error concerns only the connecting
      // process, so the loop continues to listen.
      if (error == asio::error::operation_aborted) return;
      if (!error) begin(made(SocketConnection::Socket(std::move(socket)), Side::listener));
      waits_for_room = is_crowded();
      if (!waits_for_room) accept_next();
    });
  }

  // --- unproven connections ----------------------------------------------------------------------

  static bool is_unproven(const std::pair<const ConnectionId, std::shared_ptr<SocketConnection>>& item) {
    return !item.second->is_proven();
  }

  /// Returns true if there are too many connections that have not yet proved that they know the secret.
  /// They could use up the descriptors that ranks need. Further connections then wait in the kernel's
  /// queue, until some of these have proved themselves or are closed.
  bool is_crowded() const {
    return static_cast<std::size_t>(std::ranges::count_if(connections, is_unproven)) >= kMostUnproven;
  }

  void turn_silent_away() {
    const auto latest = steady_clock::now() - (is_crowded() ? kTimeInCrowd : kTimeToProve);
    for (auto next = connections.begin(); next != connections.end();) {
      // The iterator is advanced first, because lose() erases the entry.
      const auto [id, connection] = *next++;
      if (!connection->is_proven() && connection->since() < latest) lose(id, Closing::no_proof);
    }
    if (waits_for_room && !is_crowded()) {
      waits_for_room = false;
      accept_next();
    }
  }

  // --- closed connections ------------------------------------------------------------------------

  void lose(ConnectionId id, Closing why) {
    const auto connection = find(id);
    if (!connection->is_proven() && why != Closing::by_peer) connection->refuse();
    drop(id);
    // For a connection that has never proved the secret, `events` has received nothing. The loop therefore
    // only counts it.
    connection->is_proven() ? events.closed(id, why) : static_cast<void>(++turned_away);
  }

  /// Closes the connection. Does nothing if the connection was already dropped.
  void drop(ConnectionId id) {
    const auto connection = find(id);
    if (!connection) return;
    connection->close();
    connections.erase(id);
  }

  std::shared_ptr<SocketConnection> find(ConnectionId id) const {
    const auto found = connections.find(id);
    return found == connections.end() ? nullptr : found->second;
  }

  SocketEvents events;
  SocketConnection::Owner owner;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  tcp::endpoint bound{};
  bool waits_for_room = false;
  std::atomic<ConnectionId> last_id = 0;
  std::atomic<std::int64_t> turned_away = 0;
  std::map<ConnectionId, std::shared_ptr<SocketConnection>> connections;  // used only by the loop's thread
  std::mutex mutex;                                                       // guards the members below
  /// The local end of a connection that connect() made.
  struct OwnEnd {
    std::string address;
    int descriptor = -1;
  };
  std::map<ConnectionId, OwnEnd> own_ends;
};

namespace {

/// Returns the first address of the endpoint's host name.
tl::expected<tcp::endpoint, std::string> resolved(const Endpoint& endpoint) {
  asio::io_context io;
  error_code error;
  const auto found = tcp::resolver(io).resolve(endpoint.address, std::to_string(endpoint.port), error);
  if (error || found.empty()) {
    return tl::unexpected(
        fmt::format("{} is not the address of a host: {}", shown_name(endpoint.address), error.message()));
  }
  return found.begin()->endpoint();
}

std::string cannot_listen(const Endpoint& where, const error_code& error) {
  return fmt::format("cannot listen on {}: {}", to_text(where), error.message());
}

/// Returns true if TCP has connected a socket to itself. This can happen if no process listens on the port
/// and the kernel gives the same port to the connecting socket. The connection must then be closed, because a
/// process that listens later would find the port in use.
bool is_connected_to_itself(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint here = socket.local_endpoint(error);
  return !error && here == socket.remote_endpoint(error);
}

/// Tries once to connect the socket, until `until` or until `stopped` returns true. After a success, the
/// socket belongs to `io`.
error_code try_to_connect(tcp::socket& socket, const tcp::endpoint& to, steady_clock::time_point until,
                          const std::function<bool()>& stopped) {
  asio::io_context waiting;
  tcp::socket trying(waiting);
  error_code result = asio::error::timed_out;
  trying.async_connect(to, [&](const error_code& error) { result = error; });
  // The attempt uses an io_context of its own. The context of the loop may be running on another thread, or
  // it may not run at all.
  do {
    waiting.run_until(std::min(until, steady_clock::now() + kPauseBetweenTries));
  } while (!waiting.stopped() && steady_clock::now() < until && !stopped());
  if (result == asio::error::timed_out) {
    error_code ignored;
    tolerate(trying.close(ignored));
    waiting.restart();
    waiting.run();
    return asio::error::timed_out;
  }
  if (result) return result;
  if (is_connected_to_itself(trying)) return asio::error::connection_refused;
  return socket.assign(to.protocol(), trying.release(result), result);
}

}  // namespace

SocketLoop::SocketLoop(SocketEvents events) : parts_(std::make_shared<Parts>(std::move(events))) {}

SocketLoop::~SocketLoop() = default;

void SocketLoop::prove_with(std::string secret) { parts_->owner.secret = std::move(secret); }

tl::expected<Endpoint, std::string> SocketLoop::bind(const Endpoint& where) {
  const auto endpoint = resolved(where);
  if (!endpoint) return tl::unexpected(endpoint.error());
  try {
    parts_->bound = *endpoint;
    parts_->acceptor.open(endpoint->protocol());
    parts_->acceptor.set_option(asio::socket_base::reuse_address(true));
    parts_->acceptor.bind(*endpoint);
    parts_->bound = parts_->acceptor.local_endpoint();
    return Endpoint{parts_->bound.address().to_string(), parts_->bound.port()};
  } catch (const boost::system::system_error& error) {
    return tl::unexpected(cannot_listen(where, error.code()));
  }
}

tl::expected<void, std::string> SocketLoop::listen() {
  error_code error;
  tolerate(parts_->acceptor.listen(asio::socket_base::max_listen_connections, error));
  if (error) {
    return tl::unexpected(cannot_listen({parts_->bound.address().to_string(), parts_->bound.port()}, error));
  }
  asio::post(parts_->io, [parts = parts_.get()] { parts->accept_next(); });
  return {};
}

tl::expected<ConnectionId, std::string> SocketLoop::connect(const Endpoint& to,
                                                            steady_clock::time_point until,
                                                            const std::function<bool()>& stopped) {
  const auto is_stopped = [&] { return stopped && stopped(); };
  const auto endpoint = resolved(to);
  if (!endpoint) return tl::unexpected(endpoint.error());
  tcp::socket socket(parts_->io);
  error_code error = try_to_connect(socket, *endpoint, until, is_stopped);
  while (error && steady_clock::now() + kPauseBetweenTries < until && !is_stopped()) {
    std::this_thread::sleep_for(kPauseBetweenTries);
    const error_code next = try_to_connect(socket, *endpoint, until, is_stopped);
    // An attempt that ends at its time limit has no error of its own, so the error of an earlier attempt is
    // reported.
    if (next != asio::error::timed_out) error = next;
  }
  if (error) return tl::unexpected(fmt::format("cannot connect to {}: {}", to_text(to), error.message()));
  // The socket does not belong to the loop yet, so the caller's thread may read its properties.
  const Parts::OwnEnd own_end = {.address = socket.local_endpoint(error).address().to_string(),
                                 .descriptor = socket.native_handle()};
  const auto connection = parts_->made(SocketConnection::Socket(std::move(socket)), Side::caller);
  const ConnectionId id = connection->id();
  {
    const std::scoped_lock lock(parts_->mutex);
    parts_->own_ends[id] = own_end;
  }
  asio::post(parts_->io, [parts = parts_.get(), connection] { parts->begin(connection); });
  return id;
}

ConnectionId SocketLoop::adopt(int descriptor) {
  const auto connection = parts_->made(
      SocketConnection::Socket(parts_->io, asio::generic::stream_protocol(AF_UNIX, 0), descriptor),
      std::nullopt);
  asio::post(parts_->io, [parts = parts_.get(), connection] { parts->begin(connection); });
  return connection->id();
}

std::string SocketLoop::local_address(ConnectionId connection) const {
  const std::scoped_lock lock(parts_->mutex);
  return parts_->own_ends.at(connection).address;
}

bool SocketLoop::ends_within(ConnectionId connection, std::chrono::milliseconds time) const {
  const std::scoped_lock lock(parts_->mutex);
  // POLLRDHUP reports that the peer has closed the connection, even if unread bytes remain.
  pollfd end = {.fd = parts_->own_ends.at(connection).descriptor, .events = POLLRDHUP, .revents = 0};
  return poll(&end, 1, static_cast<int>(time.count())) > 0;
}

void SocketLoop::send(ConnectionId connection, Frame frame) {
  asio::post(parts_->io, [parts = parts_.get(), connection, sent = std::move(frame)]() mutable {
    if (const auto sender = parts->find(connection)) sender->send(std::move(sent));
  });
}

void SocketLoop::close(ConnectionId connection) {
  asio::post(parts_->io, [parts = parts_.get(), connection] { parts->drop(connection); });
}

void SocketLoop::run_until(steady_clock::time_point until) {
  parts_->io.run_until(until);
  // Handlers that are ready at the deadline still run. Otherwise a busy host would lose messages that arrived
  // in time. Their number is limited, because peers may send faster than this process can handle.
  std::size_t most = kMostLateOfEach * (1 + parts_->connections.size());
  while (!parts_->io.stopped() && most > 0 && parts_->io.poll_one() > 0) --most;
  parts_->io.restart();
  parts_->turn_silent_away();
}

std::int64_t SocketLoop::strangers() const { return parts_->turned_away; }

void SocketLoop::interrupt() { parts_->io.stop(); }

}  // namespace penstock
