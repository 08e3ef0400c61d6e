// Computes the proofs of messages with HMAC. Each direction of each connection has its own key, and each
// message has a number:
//
//     key   = HMAC(secret, "penstock 1" | listener's nonce | caller's nonce | sender)
//     proof = HMAC(key, number | header | body)
//
// An attacker therefore cannot reuse a recorded message, neither later, nor in the other direction, nor on
// another connection. The secret itself is never sent. Tests: tests/backend/process_attacks_test.cpp.

#include "backend/process/message_proof.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace penstock {
namespace {

void require(bool done) {
  if (!done) throw std::runtime_error("OpenSSL has no HMAC-SHA256 or no randomness");
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

struct MessageProof::Key {
  struct Free {
    void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
  };

  explicit Key(std::span<const std::uint8_t> secret) {
    EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    require(hmac != nullptr);
    context.reset(EVP_MAC_CTX_new(hmac));
    EVP_MAC_free(hmac);
    // OpenSSL requires a pointer to non-const, although it only reads the text.
    std::array<char, 7> digest{"SHA256"};
    const std::array parameters = {OSSL_PARAM_construct_utf8_string("digest", digest.data(), 0),
                                   OSSL_PARAM_construct_end()};
    require(context != nullptr &&
            EVP_MAC_init(context.get(), secret.data(), secret.size(), parameters.data()) == 1);
  }

  template <typename... Part>
  Proof of(const Part&... parts) const {
    Proof proof{};
    std::size_t size = 0;
    // If the key argument is null, OpenSSL begins a new message with the existing key.
    require(EVP_MAC_init(context.get(), nullptr, 0, nullptr) == 1);
    (require(EVP_MAC_update(context.get(), parts.data(), parts.size()) == 1), ...);
    require(EVP_MAC_final(context.get(), proof.data(), &size, proof.size()) == 1 && size == proof.size());
    return proof;
  }

  std::unique_ptr<EVP_MAC_CTX, Free> context;
};

Nonce new_nonce() {
  Nonce nonce{};
  require(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) == 1);
  return nonce;
}

/// Derives the key of one direction from the secret and the nonces of both ends. Because both nonces enter,
/// neither end alone can force the reuse of an old key.
MessageProof::MessageProof(const std::string& secret, const Session& session) {
  const std::array sender = {static_cast<std::uint8_t>(session.sender)};
  const Proof own =
      Key(bytes_of(secret)).of(bytes_of("penstock 1"), session.of_listener, session.of_caller, sender);
  key_ = std::make_unique<Key>(own);
}

MessageProof::~MessageProof() = default;

Proof MessageProof::next(std::span<const std::uint8_t> header, std::span<const std::uint8_t> body) {
  std::array<std::uint8_t, sizeof(count_)> number{};
  // The lowest byte comes first on every machine, so that both ends compute the proof of the same bytes.
  for (std::size_t i = 0; i < number.size(); ++i) number[i] = static_cast<std::uint8_t>(count_ >> (8 * i));
  ++count_;
  return key_->of(number, header, body);
}

bool same(const Proof& a, const Proof& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace penstock
