#pragma once
// Removes files that must not remain after a signal ends this process.

#include <cstddef>
#include <optional>
#include <string>

namespace penstock {

/// The name of a file that is removed if SIGINT, SIGTERM or SIGHUP arrives while this object exists. After
/// that, the signal ends the process as usual. The file is not removed if other code handles the signal, or
/// if the signal is ignored (nohup). One thread must create and destroy all objects. The number of names and
/// their length are limited. Names beyond these limits are ignored.
class LeftName {
 public:
  /// Records the name without touching the file. A signal removes the file only after is_there().
  explicit LeftName(const std::string& name);
  LeftName(LeftName&& other) noexcept;
  LeftName& operator=(LeftName&& other) noexcept;
  LeftName(const LeftName&) = delete;
  LeftName& operator=(const LeftName&) = delete;
  /// Releases the name. It does not remove the file.
  ~LeftName();

  /// Declares that the file exists and belongs to this process, so that a signal removes it.
  void is_there() const;
  /// Declares that the file was renamed or removed.
  void is_gone() const;

 private:
  std::optional<std::size_t> slot_;  // empty if the name is not recorded or the object was moved from
};

}  // namespace penstock
