#pragma once
// Removes files that must not remain after a signal has ended this process.

#include <cstddef>
#include <optional>
#include <string>

namespace penstock {

/// The name of a file that is removed if SIGINT, SIGTERM or SIGHUP arrives while this object exists. After
/// the removal, the signal ends the process as usual. The file is not removed if other code handles the
/// signal, or if the process ignores the signal (nohup). Only one thread may create and destroy these
/// objects. The number and the length of names are limited, and names beyond the limits are ignored.
class LeftName {
 public:
  /// Records the name without touching the file. The signal handler removes the file only after is_there()
  /// has been called.
  explicit LeftName(const std::string& name);
  LeftName(LeftName&& other) noexcept;
  LeftName& operator=(LeftName&& other) noexcept;
  LeftName(const LeftName&) = delete;
  LeftName& operator=(const LeftName&) = delete;
  /// Forgets the name. Does not remove the file.
  ~LeftName();

  /// Records that the file exists and belongs to this process. From now on, a signal removes the file.
  void is_there() const;
  /// Records that the file was renamed or removed. From now on, a signal does not remove it.
  void is_gone() const;

 private:
  std::optional<std::size_t> slot_;  // empty if the name is not recorded or the object was moved from
};

}  // namespace penstock
