// The text form through OpenSSL's SHA-256.

#include "schedules/digest.hpp"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string>

#include "schedules/program.hpp"
#include "schedules/program_text.hpp"

namespace penstock {

std::string digest(const Program& lowered) {
  const std::string text = to_text(lowered);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), hash.data(), &length, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("OpenSSL offers no SHA-256, which names programs");
  }
  std::string hex;
  for (const unsigned char byte : std::span(hash).first(length)) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace penstock
