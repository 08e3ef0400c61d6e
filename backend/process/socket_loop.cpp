// Boost.Asio with one thread: everything that touches a connection runs as a handler of the io_context, so
// that nothing needs a lock. A frame is a magic number, its length, and its bytes.

#include "backend/process/socket_loop.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <tl/expected.hpp>

namespace penstock {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr std::uint64_t kMagic = 0x31'6b'63'6f'74'73'6e'70;  // "pnstock1"
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::chrono::milliseconds kPauseBetweenTries(10);

/// Of a socket that does without the option, or that is closed whatever happens.
void tolerate(const error_code&) {}

struct FrameHeader {
  std::uint64_t magic = kMagic;
  std::uint64_t length = 0;
};

struct Outgoing {
  FrameHeader header;
  Frame body;
};

struct Connection {
  Connection(ConnectionId number, tcp::socket connected) : id(number), socket(std::move(connected)) {
    error_code ignored;
    // Messages are small and timed: Nagle's algorithm would hold them back for more to come.
    tolerate(socket.set_option(tcp::no_delay(true), ignored));
  }

  ConnectionId id;
  tcp::socket socket;
  FrameHeader header{};
  Frame body{};
  std::deque<Outgoing> outgoing{};
};

}  // namespace

std::string to_text(const Endpoint& endpoint) {
  return endpoint.address.find(':') == std::string::npos
             ? fmt::format("{}:{}", endpoint.address, endpoint.port)
             : fmt::format("[{}]:{}", endpoint.address, endpoint.port);
}

struct SocketLoop::Parts {
  explicit Parts(SocketEvents told) : events(std::move(told)) {}

  void adopt(std::shared_ptr<Connection> connection) {
    read_header(*connections.emplace(connection->id, std::move(connection)).first->second);
  }

  void accept_next() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      // Any other error is of the one that wanted to connect, and no reason to stop listening.
      if (error == asio::error::operation_aborted) return;
      if (!error) adopt(std::make_shared<Connection>(++last_id, std::move(socket)));
      accept_next();
    });
  }

  void read_header(Connection& connection) {
    asio::async_read(connection.socket, asio::buffer(&connection.header, sizeof(FrameHeader)),
                     [this, id = connection.id](const error_code& error, std::size_t) {
                       if (const auto reader = find(id)) error ? lose(id) : read_body(*reader);
                     });
  }

  void read_body(Connection& connection) {
    // Whatever else connects to the port (a scanner, another run's rank) must not make us reserve its length.
    if (connection.header.magic != kMagic || connection.header.length > kMostBytes) {
      lose(connection.id);
      return;
    }
    try {
      connection.body.resize(connection.header.length);
    } catch (const std::exception&) {  // more than the machine has: not one of ours
      lose(connection.id);
      return;
    }
    asio::async_read(connection.socket, asio::buffer(connection.body),
                     [this, id = connection.id](const error_code& error, std::size_t) {
                       const auto reader = find(id);
                       if (!reader) return;
                       if (error) {
                         lose(id);
                         return;
                       }
                       events.received(id, std::exchange(reader->body, {}));
                       if (find(id)) read_header(*reader);
                     });
  }

  void enqueue(ConnectionId id, Frame frame) {
    const auto connection = find(id);
    if (!connection) return;
    connection->outgoing.push_back({{.length = frame.size()}, std::move(frame)});
    // One write at a time: two on one socket could be interleaved.
    if (connection->outgoing.size() == 1) write_next(*connection);
  }

  void write_next(Connection& connection) {
    const Outgoing& next = connection.outgoing.front();
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(&next.header, sizeof(FrameHeader)),
                                                       asio::buffer(next.body)};
    asio::async_write(connection.socket, buffers,
                      [this, id = connection.id](const error_code& error, std::size_t) {
                        const auto writer = find(id);
                        if (!writer || error) return;  // the reader will see that it has closed
                        writer->outgoing.pop_front();
                        if (!writer->outgoing.empty()) write_next(*writer);
                      });
  }

  void lose(ConnectionId id) {
    drop(id);
    events.closed(id);
  }

  /// Buffers of operations under way must live until their handlers have run.
  void drop(ConnectionId id) {
    const auto connection = find(id);
    if (!connection) return;
    error_code ignored;
    tolerate(connection->socket.close(ignored));
    connections.erase(id);
    asio::post(io, [connection] {});
  }

  std::shared_ptr<Connection> find(ConnectionId id) const {
    const auto found = connections.find(id);
    return found == connections.end() ? nullptr : found->second;
  }

  SocketEvents events;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  std::atomic<ConnectionId> last_id = 0;
  std::map<ConnectionId, std::shared_ptr<Connection>> connections;  // of the thread that runs the loop
  std::mutex mutex;                                                 // guards what follows
  std::map<ConnectionId, std::string> local_addresses;
};

namespace {

tl::expected<tcp::endpoint, std::string> resolved(const Endpoint& endpoint) {
  asio::io_context io;
  error_code error;
  const auto found = tcp::resolver(io).resolve(endpoint.address, std::to_string(endpoint.port), error);
  if (error || found.empty()) {
    return tl::unexpected(
        fmt::format("{} is not the address of a host: {}", endpoint.address, error.message()));
  }
  return found.begin()->endpoint();
}

/// One try; the socket belongs to `io` when it comes to a connection.
error_code try_to_connect(tcp::socket& socket, const tcp::endpoint& to, steady_clock::time_point until) {
  asio::io_context waiting;
  tcp::socket trying(waiting);
  error_code result = asio::error::timed_out;
  trying.async_connect(to, [&](const error_code& error) { result = error; });
  // On a context of its own: the loop's may be running on another thread, or not at all.
  waiting.run_until(until);
  if (result == asio::error::timed_out) {
    error_code ignored;
    tolerate(trying.close(ignored));
    waiting.restart();
    waiting.run();
    return asio::error::timed_out;
  }
  if (!result) return socket.assign(to.protocol(), trying.release(result), result);
  return result;
}

}  // namespace

SocketLoop::SocketLoop(SocketEvents events) : parts_(std::make_shared<Parts>(std::move(events))) {}

SocketLoop::~SocketLoop() = default;

tl::expected<Endpoint, std::string> SocketLoop::listen(const Endpoint& where) {
  const auto endpoint = resolved(where);
  if (!endpoint) return tl::unexpected(endpoint.error());
  try {
    parts_->acceptor = tcp::acceptor(parts_->io, *endpoint);
    const tcp::endpoint bound = parts_->acceptor.local_endpoint();
    asio::post(parts_->io, [parts = parts_.get()] { parts->accept_next(); });
    return Endpoint{bound.address().to_string(), bound.port()};
  } catch (const boost::system::system_error& error) {
    return tl::unexpected(fmt::format("cannot listen on {}: {}", to_text(where), error.code().message()));
  }
}

tl::expected<ConnectionId, std::string> SocketLoop::connect(const Endpoint& to,
                                                            steady_clock::time_point until) {
  const auto endpoint = resolved(to);
  if (!endpoint) return tl::unexpected(endpoint.error());
  tcp::socket socket(parts_->io);
  error_code error = try_to_connect(socket, *endpoint, until);
  while (error && steady_clock::now() + kPauseBetweenTries < until) {
    std::this_thread::sleep_for(kPauseBetweenTries);
    error = try_to_connect(socket, *endpoint, until);
  }
  if (error) return tl::unexpected(fmt::format("cannot connect to {}: {}", to_text(to), error.message()));
  auto connection = std::make_shared<Connection>(++parts_->last_id, std::move(socket));
  // Asked here, on the caller's thread, where the socket is not yet the loop's.
  const ConnectionId id = connection->id;
  {
    const std::scoped_lock lock(parts_->mutex);
    parts_->local_addresses[id] = connection->socket.local_endpoint(error).address().to_string();
  }
  asio::post(parts_->io, [parts = parts_.get(), connection] { parts->adopt(connection); });
  return id;
}

std::string SocketLoop::local_address(ConnectionId connection) const {
  const std::scoped_lock lock(parts_->mutex);
  return parts_->local_addresses.at(connection);
}

void SocketLoop::send(ConnectionId connection, Frame frame) {
  asio::post(parts_->io, [parts = parts_.get(), connection, sent = std::move(frame)]() mutable {
    parts->enqueue(connection, std::move(sent));
  });
}

void SocketLoop::close(ConnectionId connection) {
  asio::post(parts_->io, [parts = parts_.get(), connection] { parts->drop(connection); });
}

void SocketLoop::run_until(steady_clock::time_point until) {
  parts_->io.run_until(until);
  // What is ready at the deadline is still handled: a busy host must not lose what has arrived in time.
  if (!parts_->io.stopped()) parts_->io.poll();
  parts_->io.restart();
}

void SocketLoop::interrupt() { parts_->io.stop(); }

}  // namespace penstock
