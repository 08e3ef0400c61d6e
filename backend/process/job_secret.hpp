#pragma once
// A secret that only the processes of one job know. The launcher's environment may contain it
// (PENSTOCK_SECRET). Otherwise rank 0 makes one and writes it to a file that only its user can read.

#include <cstdint>
#include <filesystem>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/host/left_names.hpp"

namespace penstock {

/// Returns 256 random bits as 64 hexadecimal digits.
std::string new_secret();

/// Returns the path of the secret of the job whose rank 0 listens on this port.
std::filesystem::path secret_path(std::uint16_t port);

/// The file of the secret. It is removed when this object is destroyed, or when SIGINT, SIGTERM or SIGHUP
/// ends the process and is neither handled nor ignored. If the process is killed otherwise, a rank that
/// looked for the file removes it, or the next job.
class SecretFile {
 public:
  /// Writes the file. Replaces what an earlier job has left on this port, and removes what ended processes
  /// have left on others. Error: the file cannot be made, or its folder belongs to another user.
  static tl::expected<SecretFile, std::string> leave(std::uint16_t port, const std::string& secret);
  SecretFile(SecretFile&& other) noexcept;
  SecretFile& operator=(SecretFile&& other) noexcept;
  ~SecretFile();

 private:
  /// Creates the object only; write() creates the file.
  explicit SecretFile(std::filesystem::path path);
  tl::expected<void, std::string> write(const std::string& secret);

  std::filesystem::path path_;  // empty: moved from
  int lock_ = -1;               // descriptor of the locked file; the kernel unlocks it when this process ends
  LeftName left_;
  LeftName left_beside_;
};

/// Returns the secret that rank 0 has written. Error: there is no such file, or other users could have
/// written it.
tl::expected<std::string, std::string> left_secret(std::uint16_t port);

/// Removes the file of a rank 0 that has ended, or that ends within a moment, without removing it.
void remove_abandoned_secret(std::uint16_t port);

}  // namespace penstock
