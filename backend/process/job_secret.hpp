#pragma once
// What the processes of one job know and nobody else does. A launcher's environment may give it
// (PENSTOCK_SECRET); otherwise rank 0 makes one and leaves it in a file that only its user can read.

#include <cstdint>
#include <filesystem>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/host/left_names.hpp"

namespace penstock {

/// 256 random bits as 64 hexadecimal digits.
std::string new_secret();

/// Where the secret of the job lies whose rank 0 listens on that port.
std::filesystem::path secret_path(std::uint16_t port);

/// The file, for as long as this lives, or until SIGINT, SIGTERM or SIGHUP ends the process, unless somebody
/// handles or ignores that signal. What a process leaves that is killed otherwise is removed by a rank that
/// looked for it, or by the next job.
class SecretFile {
 public:
  /// Replaces what an earlier job has left on this port, and removes what ended processes have left on
  /// others. Error: the file cannot be made, or its folder is somebody else's.
  static tl::expected<SecretFile, std::string> leave(std::uint16_t port, const std::string& secret);
  SecretFile(SecretFile&& other) noexcept;
  SecretFile& operator=(SecretFile&& other) noexcept;
  ~SecretFile();

 private:
  /// Makes nothing yet.
  explicit SecretFile(std::filesystem::path path);
  tl::expected<void, std::string> write(const std::string& secret);

  std::filesystem::path path_;  // empty: moved from
  int lock_ = -1;               // the file, locked: the kernel unlocks it when this process has ended
  LeftName left_;
  LeftName left_beside_;
};

/// What rank 0 has left. Error: there is no such file, or others than this user could have written it.
tl::expected<std::string, std::string> left_secret(std::uint16_t port);

/// Removes the file of a rank 0 that has ended, or that ends within a moment, and could not.
void remove_abandoned_secret(std::uint16_t port);

}  // namespace penstock
