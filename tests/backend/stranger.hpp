#pragma once
// Processes that connect to the ports of a job and are none of its ranks. A Stranger does not know the
// secret, and an Insider knows it.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backend/process/control_message.hpp"
#include "backend/process/job_secret.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/process_run.hpp"
#include "backend/process/socket_loop.hpp"

namespace penstock {

/// A process that has found the port and does not know the secret.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port, const char* host = "127.0.0.1") {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, host, &address.sin_addr);
    address.sin_port = htons(port);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (;;) {
      socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) break;
      ::close(std::exchange(socket_, -1));
      if (std::chrono::steady_clock::now() > until) throw std::runtime_error("nobody listens");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { ::close(socket_); }

  void say(std::span<const std::uint8_t> bytes) const {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t more = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return;  // the connection was closed
      sent += static_cast<std::size_t>(more);
    }
  }
  /// Returns this number of bytes, or fewer if the connection ends before.
  std::string heard(std::size_t size) const {
    std::string heard(size, '\0');
    const ssize_t got = ::recv(socket_, heard.data(), size, MSG_WAITALL);
    heard.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return heard;
  }
  /// Returns true if the other side closes the connection within the time.
  bool is_turned_away(std::chrono::milliseconds within) const {
    return heard_until_the_end(within) != "it was not turned away";
  }
  /// Returns all bytes that come before the other side closes the connection.
  std::string heard_until_the_end(std::chrono::milliseconds within) const {
    const auto until = std::chrono::steady_clock::now() + within;
    std::string heard;
    std::array<char, 4096> bytes{};
    while (std::chrono::steady_clock::now() < until) {
      pollfd ready = {.fd = socket_, .events = POLLIN, .revents = 0};
      ::poll(&ready, 1, 10);
      if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
      if (got <= 0) return heard;
      heard.append(bytes.data(), static_cast<std::size_t>(got));
    }
    return "it was not turned away";
  }

 private:
  int socket_ = -1;
};

template <typename Number>
void append(std::vector<std::uint8_t>& bytes, Number number) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(number));
  std::memcpy(bytes.data() + at, &number, sizeof(number));
}

/// The letters "pnstock2". They are written here again, so that a change of the protocol that accepts old
/// connections is noticed.
inline constexpr std::uint64_t kMagic = 0x32'6b'63'6f'74'73'6e'70;

inline std::vector<std::uint8_t> opening() {
  std::vector<std::uint8_t> bytes;
  append(bytes, kMagic);
  append(bytes, Nonce{});
  return bytes;
}

/// Returns an opening and frames of one chunk with a proof of zeros. The form is right, but the proofs are
/// false.
inline std::vector<std::uint8_t> forged(const std::vector<Frame>& messages) {
  std::vector<std::uint8_t> bytes = opening();
  for (const Frame& message : messages) {
    append(bytes, static_cast<std::uint32_t>(message.size()));
    append(bytes, std::uint32_t{1});
    bytes.insert(bytes.end(), message.begin(), message.end());
    append(bytes, Proof{});
  }
  return bytes;
}

/// The secret of a job whose ranks get it from the environment.
inline constexpr const char* kKnownSecret = "known to all ranks here";

inline Hello hello_of(std::int32_t rank, const std::string& digest = "d") {
  return {.rank = rank, .process_id = 1, .digest = digest, .boot_id = boot_id(), .data = {}};
}

inline ProcessPlace secret_place_of(std::int32_t rank, std::uint16_t port) {
  return {.rank = rank, .coordinator = {.port = port}, .secret = kKnownSecret};
}

/// Returns another port at which the process listens, as the kernel lists it.
inline std::optional<std::uint16_t> listening_port_but(pid_t process, std::uint16_t known) {
  std::set<std::string> own;  // "socket:[INODE]"
  std::error_code gone;
  for (const auto& file :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone))
    own.insert(std::filesystem::read_symlink(file.path(), gone).string());
  std::ifstream table("/proc/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    const std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
    // The cells are: number, local address, remote address, state, queues, timer, retransmits, user,
    // timeouts, inode.
    if (cells.size() < 10 || cells[3] != "0A" || !own.contains("socket:[" + cells[9] + "]")) continue;
    const auto port =
        static_cast<std::uint16_t>(std::stoul(cells[1].substr(cells[1].find(':') + 1), nullptr, 16));
    if (port != known) return port;
  }
  return std::nullopt;
}

/// A process that knows the secret and sends chunks that no rank would send.
class Insider {
 public:
  explicit Insider(std::uint16_t port) : connection_(port) {
    connection_.say(opening());
    const std::string others = connection_.heard(opening().size());
    MessageProof::Session session{.sender = Side::caller};
    if (others.size() != opening().size()) throw std::runtime_error("nobody opens");
    std::memcpy(session.of_listener.data(), others.data() + sizeof(kMagic), session.of_listener.size());
    proof_.emplace(kKnownSecret, session);
  }

  /// Sends one chunk. `is_last` says that it is the last chunk of its frame.
  void say(const Frame& body, bool is_last = true) {
    std::vector<std::uint8_t> bytes;
    append(bytes, static_cast<std::uint32_t>(body.size()));
    append(bytes, static_cast<std::uint32_t>(is_last ? 1 : 0));
    const Proof proof = proof_->next(bytes, body);
    bytes.insert(bytes.end(), body.begin(), body.end());
    append(bytes, proof);
    connection_.say(bytes);
  }
  bool is_turned_away(std::chrono::milliseconds within) const { return connection_.is_turned_away(within); }

 private:
  Stranger connection_;
  std::optional<MessageProof> proof_;
};

}  // namespace penstock
