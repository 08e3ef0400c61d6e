// All work runs on one thread. Bytes that are written to a socket remain in the kernel until the loop runs
// for a moment.

#include "tests/fuzz/socket_targets.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/process/socket_loop.hpp"

namespace penstock {
namespace {

using Wire = std::vector<std::uint8_t>;
using Input = std::span<const std::uint8_t>;

constexpr std::size_t kMostFrameBytes = 2 * kChunkBytes;
constexpr int kMostChunks = 16;
/// More than one chunk, so that a chunk that is too long arrives completely.
constexpr std::size_t kMostBodyBytes = 2 * kChunkBytes;
/// The largest number of moments for which a loop runs. In each moment it handles some dozen events.
constexpr int kMoments = 20'000;

void expect(bool holds, const char* sentence) {
  if (!holds) throw std::logic_error(sentence);
}

/// This end of a connection. Writing to it after the other end has closed does not raise a signal.
class OwnSocket {
 public:
  explicit OwnSocket(int descriptor) : descriptor_(descriptor) {
    expect(descriptor_ >= 0, "a socket can be made");
  }
  OwnSocket(const OwnSocket&) = delete;
  OwnSocket& operator=(const OwnSocket&) = delete;
  ~OwnSocket() { end(); }

  int descriptor() const { return descriptor_; }
  void end() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

/// A loop that records the frames that it has received.
struct Listening {
  Listening()
      : loop({.received = [this](ConnectionId, Frame frame) { frames.push_back(std::move(frame)); },
              .closed = [this](ConnectionId, Closing) { ++closed; },
              .most_bytes = [](ConnectionId, const Frame&) { return kMostFrameBytes; }}) {}

  void give_a_moment() { loop.run_until(std::chrono::steady_clock::now()); }
  bool runs_until(const std::function<bool()>& is_so) {
    for (int moment = 0; moment < kMoments && !is_so(); ++moment) give_a_moment();
    return is_so();
  }

  std::vector<Frame> frames;
  int closed = 0;
  SocketLoop loop;
};

/// Writes the bytes as long as the other end reads them.
void write_all(int descriptor, Input bytes, Listening& other) {
  for (int moment = 0; moment < kMoments && !bytes.empty(); ++moment) {
    const ssize_t sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return;
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    other.give_a_moment();
  }
}

struct Header {
  std::uint32_t length = 0;
  std::uint32_t is_last = 0;
};

/// Returns the bytes on the socket that an input describes (read_socket_frames).
Wire wire_of(Input input) {
  Wire wire;
  for (int chunk = 0; chunk < kMostChunks && input.size() > sizeof(Header); ++chunk) {
    Header header;
    std::memcpy(&header, input.data(), sizeof(Header));
    const std::size_t stated = input[sizeof(Header)];
    wire.insert(wire.end(), input.begin(), input.begin() + sizeof(Header));
    input = input.subspan(sizeof(Header) + 1);
    const Input body = input.first(std::min(stated, input.size()));
    wire.insert(wire.end(), body.begin(), body.end());
    input = input.subspan(body.size());
    const bool has_more = !input.empty();
    if (has_more && header.length <= kMostBodyBytes && header.length > body.size())
      wire.resize(wire.size() + header.length - body.size());
  }
  return wire;
}

/// Returns the frames in the bytes, up to the end or to the first invalid frame. It is a simple reference
/// implementation.
std::vector<Frame> frames_of(Input wire) {
  std::vector<Frame> frames;
  Frame frame;
  while (wire.size() >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, wire.data(), sizeof(Header));
    wire = wire.subspan(sizeof(Header));
    const bool is_full = header.length == kChunkBytes;
    const bool is_chunk =
        header.length <= kChunkBytes && header.is_last <= 1 && (header.is_last == 1 || is_full);
    if (!is_chunk || wire.size() < header.length) return frames;
    frame.insert(frame.end(), wire.begin(), wire.begin() + header.length);
    wire = wire.subspan(header.length);
    if (header.is_last == 1) {
      frames.push_back(std::exchange(frame, {}));
    } else if (frame.size() >= kMostFrameBytes) {
      return frames;
    }
  }
  return frames;
}

/// Returns a socket that is connected to `where`. When it is closed, the kernel stores no state of the
/// connection.
int connected_to(const Endpoint& where) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(where.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  expect(::connect(descriptor, to, sizeof(address)) == 0, "who listens can be reached");
  return descriptor;
}

/// Returns the bytes that have arrived so far.
std::string heard_by(int descriptor) {
  std::array<char, 4096> bytes{};
  const ssize_t count = ::recv(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

}  // namespace

void read_socket_frames(Input bytes) {
  const Wire wire = wire_of(bytes);
  std::array<int, 2> ends{};
  expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "a socket pair can be made");
  OwnSocket own(ends[0]);
  Listening other;
  other.loop.adopt(ends[1]);
  write_all(own.descriptor(), wire, other);
  own.end();
  expect(other.runs_until([&] { return other.closed > 0; }), "a connection ends with its peer");
  expect(other.closed == 1, "an end is told once");
  expect(other.frames == frames_of(wire), "the frames are those that the chunks make");
}

void meet_stranger(Input bytes) {
  static constexpr std::string_view kOpening("pnstock2 nobody knows what a nonce will be", 40);
  Listening other;
  other.loop.prove_with("a secret that no stranger knows");
  const auto where = other.loop.bind({});
  expect(where.has_value() && other.loop.listen().has_value(), "a loop can listen");
  OwnSocket own(connected_to(*where));
  Wire said;
  if (!bytes.empty() && bytes.front() % 2 == 1) said.assign(kOpening.begin(), kOpening.end());
  said.insert(said.end(), bytes.begin() + (bytes.empty() ? 0 : 1), bytes.end());
  write_all(own.descriptor(), said, other);
  // The loop must read its bytes before the end of the connection discards them.
  for (int moment = 0; moment < 4; ++moment) other.give_a_moment();
  const std::string heard = heard_by(own.descriptor());
  own.end();
  expect(other.runs_until([&] { return other.loop.strangers() > 0; }), "a stranger is turned away");
  expect(other.loop.strangers() == 1 && other.closed == 0, "nobody is told of a stranger");
  expect(other.frames.empty(), "nothing is received from a stranger");
  expect(heard.size() <= 40 || (heard.size() == 48 && heard.ends_with("refused\n")),
         "a stranger hears an opening and a refusal");
}

}  // namespace penstock
