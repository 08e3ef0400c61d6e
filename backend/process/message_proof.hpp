#pragma once
// Proves that a message comes from a process that knows the job's secret, is meant for this connection, and
// is the next one on it: HMAC-SHA256 (RFC 2104, FIPS 198-1).

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace penstock {

/// A random number that one end of a connection has chosen for it.
using Nonce = std::array<std::uint8_t, 32>;
using Proof = std::array<std::uint8_t, 32>;

/// From the system's source of randomness. Throws std::runtime_error where that has none.
Nonce new_nonce();

/// Of the two ends of a connection, the one that took it and the one that asked for it.
enum class Side : std::uint8_t { listener, caller };

/// What is sent on one connection in one direction; both ends have one and count alike.
class MessageProof {
 public:
  struct Session {
    Nonce of_listener{};
    Nonce of_caller{};
    Side sender = Side::listener;
  };
  MessageProof(const std::string& secret, const Session& session);
  MessageProof(const MessageProof&) = delete;
  MessageProof& operator=(const MessageProof&) = delete;
  ~MessageProof();

  /// Of what is sent next, `header` and then `body`.
  Proof next(std::span<const std::uint8_t> header, std::span<const std::uint8_t> body);

 private:
  struct Key;
  std::unique_ptr<Key> key_;
  std::uint64_t count_ = 0;
};

/// Takes as long whatever they differ in.
bool same(const Proof& a, const Proof& b);

}  // namespace penstock
