// One connection, which sends and receives frames in chunks. Over TCP, each chunk has a proof: a code that
// shows that the sender knows the secret of the job. The other end is a stranger if it does not know the
// secret.
//
//     start of TCP, each direction:   magic number | nonce                    40 bytes, without proof
//     frame:                          chunk .. chunk                          64 KiB each, except the last
//     chunk:                          length, last-chunk flag | body | proof
//     last bytes to a stranger:       "refused" and an end of line            8 bytes, without proof
//
// If the stream ends without the text "refused", the other process has ended. A socket pair has no proofs.
//
// A connection accepts a length only up to one chunk, and a chunk only with its proof. A stranger, such as a
// port scanner or a rank of another job, can therefore occupy the memory of at most one chunk. It is then
// disconnected. Tests: tests/backend/process_attacks_test.cpp.

#include "backend/process/socket_loop.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "backend/process/job_secret.hpp"

namespace penstock {
namespace {

namespace asio = boost::asio;

template <typename Value>
std::span<const std::uint8_t> bytes_of(const Value& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof(Value)};
}

}  // namespace

SocketConnection::SocketConnection(ConnectionId id, Socket socket, std::optional<Side> side,
                                   const Owner& owner)
    : id_(id), socket_(std::move(socket)), side_(side), owner_(owner), proven_(side != Side::listener) {
  // Nagle's algorithm would delay small messages, and the measured times would be wrong. If the option cannot
  // be set, the connection still works.
  Error ignored;
  if (side_) tolerate(socket_.set_option(asio::ip::tcp::no_delay(true), ignored));
}

void SocketConnection::begin() { must_prove() ? open() : read_header(); }

void SocketConnection::refuse() {
  // If frames are still being sent, the text is not sent, because the other end would read it as a part of a
  // frame.
  if (side_ != Side::listener || !outgoing_.empty()) return;
  const int socket = socket_.native_handle();
  // Only 40 bytes were sent before these 8, so the socket's buffer normally has room for them.
  if (::send(socket, kRefusal.data(), kRefusal.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
  shutdown(socket, SHUT_WR);
  // If received bytes are still unread when the socket closes, the kernel resets the connection, and the text
  // may be lost. MSG_TRUNC drops these bytes without copying them.
  recv(socket, nullptr, kChunkBytes, MSG_DONTWAIT | MSG_TRUNC);
}

void SocketConnection::close() {
  closed_ = true;
  Error ignored;
  tolerate(socket_.close(ignored));
}

/// Returns a handler that shares the ownership of the connection, so that the connection's buffers stay
/// valid. The handler does nothing after the connection was closed.
std::function<void(const SocketConnection::Error&, std::size_t)> SocketConnection::unless_closed(
    std::function<void(const Error&)> handler) {
  return [self = shared_from_this(), handler = std::move(handler)](const Error& error, std::size_t) {
    if (!self->closed_) handler(error);
  };
}

// --- opening ----------------------------------------------------------------------------------------

void SocketConnection::open() {
  own_.nonce = new_nonce();
  asio::async_write(socket_, asio::buffer(&own_, sizeof(Opening)), unless_closed([this](const Error& error) {
                      error ? owner_.lost(id_, Closing::by_peer) : read_opening();
                    }));
}

void SocketConnection::read_opening() {
  // If the first bytes differ from the magic number, the read ends at once, without waiting for all 40 bytes.
  const auto left = [this](const Error& error, std::size_t got) -> std::size_t {
    const bool may_be_ours = std::memcmp(&others_, &own_, std::min(got, sizeof(own_.magic))) == 0;
    return error || !may_be_ours ? 0 : sizeof(Opening) - got;
  };
  asio::async_read(socket_, asio::buffer(&others_, sizeof(Opening)), left,
                   unless_closed([this](const Error& error) {
                     if (error || others_.magic != Opening::kMagic) {
                       owner_.lost(id_, error ? Closing::by_peer : Closing::no_proof);
                       return;
                     }
                     agree();
                     read_header();
                     // Sends the frames that were queued before the key existed.
                     if (!outgoing_.empty()) write_next();
                   }));
}

void SocketConnection::agree() {
  const bool listens = side_ == Side::listener;
  const auto proof_of = [&](Side sender) {
    return std::make_unique<MessageProof>(
        owner_.secret, MessageProof::Session{.of_listener = listens ? own_.nonce : others_.nonce,
                                             .of_caller = listens ? others_.nonce : own_.nonce,
                                             .sender = sender});
  };
  sent_proof_ = proof_of(*side_);
  received_proof_ = proof_of(listens ? Side::caller : Side::listener);
}

// --- reading ----------------------------------------------------------------------------------------

void SocketConnection::read_header() {
  asio::async_read(socket_, asio::buffer(&header_, sizeof(ChunkHeader)),
                   unless_closed([this](const Error& error) {
                     error ? owner_.lost(id_, Closing::by_peer) : read_chunk();
                   }));
}

void SocketConnection::read_chunk() {
  if (side_ == Side::caller && std::memcmp(&header_, kRefusal.data(), kRefusal.size()) == 0) {
    owner_.lost(id_, Closing::refused);
    return;
  }
  const auto [length, is_last] = header_;
  // All chunks except the last must be full. A sender can therefore not split a frame into many small chunks.
  if (length > kChunkBytes || is_last > 1 || (is_last == 0 && length != kChunkBytes)) {
    owner_.lost(id_, Closing::not_a_frame);
    return;
  }
  chunk_.resize(length);
  const std::array<asio::mutable_buffer, 2> buffers = {
      asio::buffer(chunk_), asio::buffer(proof_.data(), must_prove() ? proof_.size() : 0)};
  asio::async_read(socket_, buffers, unless_closed([this](const Error& error) {
                     error ? owner_.lost(id_, Closing::by_peer) : take_chunk();
                   }));
}

void SocketConnection::take_chunk() {
  if (!has_valid_proof()) {
    owner_.lost(id_, Closing::no_proof);
    return;
  }
  append_chunk();
  const bool is_last = header_.is_last == 1;
  // The frame is longer than a frame with this beginning may be.
  if (!is_last && frame_.size() >= owner_.most_bytes(id_, frame_)) {
    owner_.lost(id_, Closing::not_a_frame);
    return;
  }
  if (is_last) owner_.received(id_, std::exchange(frame_, {}));
  // The function that received the frame may have closed the connection.
  if (!closed_) read_header();
}

bool SocketConnection::has_valid_proof() {
  // A socket pair needs no proof, because no other process can reach it.
  if (!must_prove()) return true;
  if (!same(received_proof_->next(bytes_of(header_), chunk_), proof_)) return false;
  proven_ = true;
  return true;
}

void SocketConnection::append_chunk() {
  if (frame_.empty()) {
    frame_ = std::exchange(chunk_, {});
  } else {
    frame_.insert(frame_.end(), chunk_.begin(), chunk_.end());
  }
}

// --- writing ----------------------------------------------------------------------------------------

void SocketConnection::send(Frame frame) {
  outgoing_.push_back(std::move(frame));
  const bool may_write = !must_prove() || sent_proof_;
  // Only one write may be in progress, because the bytes of two writes could be interleaved.
  if (outgoing_.size() == 1 && may_write) write_next();
}

void SocketConnection::write_next() {
  const Frame& frame = outgoing_.front();
  const std::size_t length = std::min(kChunkBytes, frame.size() - written_);
  const std::span<const std::uint8_t> body(frame.data() + written_, length);
  written_ += length;
  sent_header_ = {.length = static_cast<std::uint32_t>(length),
                  .is_last = written_ == frame.size() ? 1U : 0U};
  if (must_prove()) sent_chunk_proof_ = sent_proof_->next(bytes_of(sent_header_), body);
  const std::array<asio::const_buffer, 3> buffers = {
      asio::buffer(&sent_header_, sizeof(ChunkHeader)), asio::buffer(body.data(), body.size()),
      asio::buffer(sent_chunk_proof_.data(), must_prove() ? sizeof(Proof) : 0)};
  asio::async_write(socket_, buffers, unless_closed([this](const Error& error) {
                      // Write errors are not handled here. After an error, the read operation also finds that
                      // the connection is closed, and reports it.
                      if (!error) has_written();
                    }));
}

void SocketConnection::has_written() {
  if (sent_header_.is_last == 1) {
    outgoing_.pop_front();
    written_ = 0;
  }
  if (!outgoing_.empty()) write_next();
}

}  // namespace penstock
