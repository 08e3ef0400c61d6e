// Boost.Asio with one thread: everything that touches a connection runs as a handler of the io_context, so
// that nothing needs a lock.
//
//   TCP, once, both ways:   magic number | nonce                     40 bytes, whoever it is
//   frame:                  chunk .. chunk                           64 KiB each, but for the last
//   chunk:                  length, is it the last | body | proof    no proof on a socket pair
//
// A length is believed only up to a chunk, and a chunk only with its proof: whoever else connects (a scanner,
// another job's rank, an attacker) can make this process hold one chunk for a moment, and is then gone.

#include "backend/process/socket_loop.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <tl/expected.hpp>

#include "backend/process/message_proof.hpp"

namespace penstock {
namespace {

namespace asio = boost::asio;
using asio::generic::stream_protocol;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr std::uint64_t kMagic = 0x32'6b'63'6f'74'73'6e'70;  // "pnstock2"
constexpr std::chrono::milliseconds kPauseBetweenTries(10);
constexpr std::chrono::milliseconds kTimeToProve(5000);
constexpr std::chrono::milliseconds kTimeInCrowd(250);
constexpr std::size_t kMostUnproven = 128;

/// Of a socket that does without the option, or that is closed whatever happens.
void tolerate(const error_code&) {}

struct Opening {
  std::uint64_t magic = kMagic;
  Nonce nonce{};
};
static_assert(sizeof(Opening) == 40, "it has no padding");

struct ChunkHeader {
  std::uint32_t length = 0;
  std::uint32_t is_last = 0;
};

template <typename Value>
std::span<const std::uint8_t> bytes_of(const Value& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof(Value)};
}

struct Connection {
  Connection(ConnectionId number, stream_protocol::socket connected, std::optional<Side> own_side)
      : id(number), socket(std::move(connected)), side(own_side), proven(side != Side::listener) {
    error_code ignored;
    // Messages are small and timed: Nagle's algorithm would hold them back for more to come.
    if (side) tolerate(socket.set_option(tcp::no_delay(true), ignored));
  }

  bool must_prove() const { return side.has_value(); }

  ConnectionId id;
  stream_protocol::socket socket;
  std::optional<Side> side;  // nothing: a socket pair
  /// A caller has chosen whom it calls; who calls is a stranger at first.
  bool proven;
  steady_clock::time_point since = steady_clock::now();
  Opening own{};
  Opening others{};
  std::unique_ptr<MessageProof> sent_proof{};  // null until both nonces are known
  std::unique_ptr<MessageProof> received_proof{};

  ChunkHeader header{};
  Frame chunk{};
  Proof proof{};
  Frame frame{};  // what has come of it

  std::deque<Frame> outgoing{};
  std::size_t written = 0;  // of the first of them
  ChunkHeader sent_header{};
  Proof sent_chunk_proof{};
};

}  // namespace

std::string to_text(const Endpoint& endpoint) {
  return endpoint.address.find(':') == std::string::npos
             ? fmt::format("{}:{}", endpoint.address, endpoint.port)
             : fmt::format("[{}]:{}", endpoint.address, endpoint.port);
}

struct SocketLoop::Parts {
  explicit Parts(SocketEvents told) : events(std::move(told)) {}

  void begin(std::shared_ptr<Connection> connection) {
    Connection& begun = *connections.emplace(connection->id, std::move(connection)).first->second;
    begun.must_prove() ? open(begun) : read_header(begun);
  }

  void accept_next() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      // Any other error is of the one that wanted to connect, and no reason to stop listening.
      if (error == asio::error::operation_aborted) return;
      if (!error) {
        begin(std::make_shared<Connection>(++last_id, stream_protocol::socket(std::move(socket)),
                                           Side::listener));
      }
      waits_for_room = is_crowded();
      if (!waits_for_room) accept_next();
    });
  }

  // --- who is there -------------------------------------------------------------------------------

  void open(Connection& connection) {
    connection.own.nonce = new_nonce();
    asio::async_write(connection.socket, asio::buffer(&connection.own, sizeof(Opening)),
                      [this, id = connection.id](const error_code& error, std::size_t) {
                        const auto opened = find(id);
                        if (opened) error ? lose(id, Closing::by_peer) : read_opening(*opened);
                      });
  }

  void read_opening(Connection& connection) {
    asio::async_read(connection.socket, asio::buffer(&connection.others, sizeof(Opening)),
                     [this, id = connection.id](const error_code& error, std::size_t) {
                       const auto opened = find(id);
                       if (!opened) return;
                       if (error || opened->others.magic != kMagic) {
                         lose(id, error ? Closing::by_peer : Closing::no_proof);
                         return;
                       }
                       agree(*opened);
                       read_header(*opened);
                       if (!opened->outgoing.empty()) write_next(*opened);
                     });
  }

  void agree(Connection& connection) const {
    const bool listens = connection.side == Side::listener;
    const auto proof_of = [&](Side sender) {
      return std::make_unique<MessageProof>(
          secret,
          MessageProof::Session{.of_listener = listens ? connection.own.nonce : connection.others.nonce,
                                .of_caller = listens ? connection.others.nonce : connection.own.nonce,
                                .sender = sender});
    };
    connection.sent_proof = proof_of(*connection.side);
    connection.received_proof = proof_of(listens ? Side::caller : Side::listener);
  }

  static bool is_unproven(const std::pair<const ConnectionId, std::shared_ptr<Connection>>& item) {
    return !item.second->proven;
  }

  /// Strangers that say nothing must not use up what others connect with. Those that come next wait in the
  /// kernel's queue until some have proved who they are or have been silent for too long.
  bool is_crowded() const {
    return static_cast<std::size_t>(std::ranges::count_if(connections, is_unproven)) >= kMostUnproven;
  }

  void turn_silent_away() {
    const auto latest = steady_clock::now() - (is_crowded() ? kTimeInCrowd : kTimeToProve);
    for (auto next = connections.begin(); next != connections.end();) {
      const auto [id, connection] = *next++;
      if (!connection->proven && connection->since < latest) lose(id, Closing::no_proof);
    }
    if (waits_for_room && !is_crowded()) {
      waits_for_room = false;
      accept_next();
    }
  }

  // --- reading ------------------------------------------------------------------------------------

  void read_header(Connection& connection) {
    asio::async_read(connection.socket, asio::buffer(&connection.header, sizeof(ChunkHeader)),
                     [this, id = connection.id](const error_code& error, std::size_t) {
                       if (const auto reader = find(id)) {
                         error ? lose(id, Closing::by_peer) : read_chunk(*reader);
                       }
                     });
  }

  void read_chunk(Connection& connection) {
    const auto [length, is_last] = connection.header;
    if (length > kChunkBytes || is_last > 1 || (is_last == 0 && length != kChunkBytes)) {
      lose(connection.id, Closing::not_a_frame);
      return;
    }
    connection.chunk.resize(length);
    const std::array<asio::mutable_buffer, 2> buffers = {
        asio::buffer(connection.chunk),
        asio::buffer(connection.proof.data(), connection.must_prove() ? connection.proof.size() : 0)};
    asio::async_read(connection.socket, buffers,
                     [this, id = connection.id](const error_code& error, std::size_t) {
                       if (const auto reader = find(id)) {
                         error ? lose(id, Closing::by_peer) : take_chunk(*reader);
                       }
                     });
  }

  void take_chunk(Connection& connection) {
    const ConnectionId id = connection.id;
    if (connection.must_prove()) {
      const Proof expected = connection.received_proof->next(bytes_of(connection.header), connection.chunk);
      if (!same(expected, connection.proof)) {
        lose(id, Closing::no_proof);
        return;
      }
      connection.proven = true;
    }
    const bool is_last = connection.header.is_last == 1;
    if (connection.frame.empty()) {
      connection.frame = std::exchange(connection.chunk, {});
    } else {
      connection.frame.insert(connection.frame.end(), connection.chunk.begin(), connection.chunk.end());
    }
    if (!is_last && connection.frame.size() >= events.most_bytes(id, connection.frame)) {
      lose(id, Closing::not_a_frame);
      return;
    }
    if (is_last) events.received(id, std::exchange(connection.frame, {}));
    if (const auto reader = find(id)) read_header(*reader);
  }

  // --- writing ------------------------------------------------------------------------------------

  void enqueue(ConnectionId id, Frame frame) {
    const auto connection = find(id);
    if (!connection) return;
    connection->outgoing.push_back(std::move(frame));
    const bool may_write = !connection->must_prove() || connection->sent_proof;
    // One write at a time: two on one socket could be interleaved.
    if (connection->outgoing.size() == 1 && may_write) write_next(*connection);
  }

  void write_next(Connection& connection) {
    const Frame& frame = connection.outgoing.front();
    const std::size_t length = std::min(kChunkBytes, frame.size() - connection.written);
    const std::span<const std::uint8_t> body(frame.data() + connection.written, length);
    connection.written += length;
    connection.sent_header = {.length = static_cast<std::uint32_t>(length),
                              .is_last = connection.written == frame.size() ? 1U : 0U};
    if (connection.must_prove())
      connection.sent_chunk_proof = connection.sent_proof->next(bytes_of(connection.sent_header), body);
    const std::array<asio::const_buffer, 3> buffers = {
        asio::buffer(&connection.sent_header, sizeof(ChunkHeader)), asio::buffer(body.data(), body.size()),
        asio::buffer(connection.sent_chunk_proof.data(), connection.must_prove() ? sizeof(Proof) : 0)};
    asio::async_write(connection.socket, buffers,
                      [this, id = connection.id](const error_code& error, std::size_t) {
                        const auto writer = find(id);
                        if (!writer || error) return;  // the reader will see that it has closed
                        if (writer->sent_header.is_last == 1) {
                          writer->outgoing.pop_front();
                          writer->written = 0;
                        }
                        if (!writer->outgoing.empty()) write_next(*writer);
                      });
  }

  // --- ends ---------------------------------------------------------------------------------------

  void lose(ConnectionId id, Closing why) {
    const auto connection = find(id);
    drop(id);
    connection->proven ? events.closed(id, why) : static_cast<void>(++turned_away);
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
  std::string secret;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  tcp::endpoint bound{};
  bool waits_for_room = false;
  std::atomic<ConnectionId> last_id = 0;
  std::atomic<std::int64_t> turned_away = 0;
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

std::string cannot_listen(const Endpoint& where, const error_code& error) {
  return fmt::format("cannot listen on {}: {}", to_text(where), error.message());
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

void SocketLoop::prove_with(std::string secret) { parts_->secret = std::move(secret); }

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
  const ConnectionId id = ++parts_->last_id;
  {
    // Asked here, on the caller's thread, where the socket is not yet the loop's.
    const std::scoped_lock lock(parts_->mutex);
    parts_->local_addresses[id] = socket.local_endpoint(error).address().to_string();
  }
  auto connection =
      std::make_shared<Connection>(id, stream_protocol::socket(std::move(socket)), Side::caller);
  asio::post(parts_->io, [parts = parts_.get(), connection] { parts->begin(connection); });
  return id;
}

ConnectionId SocketLoop::adopt(int descriptor) {
  const ConnectionId id = ++parts_->last_id;
  auto connection = std::make_shared<Connection>(
      id, stream_protocol::socket(parts_->io, stream_protocol(AF_UNIX, 0), descriptor), std::nullopt);
  asio::post(parts_->io, [parts = parts_.get(), connection] { parts->begin(connection); });
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
  parts_->turn_silent_away();
}

std::int64_t SocketLoop::strangers() const { return parts_->turned_away; }

void SocketLoop::interrupt() { parts_->io.stop(); }

}  // namespace penstock
