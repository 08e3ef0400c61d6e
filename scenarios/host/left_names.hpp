#pragma once
// Names of files that must not be left behind where a signal ends this process.

#include <cstddef>
#include <optional>
#include <string>

namespace penstock {

/// A name that SIGINT, SIGTERM and SIGHUP remove while this lives and the file is there, unless somebody
/// handles or ignores that signal (nohup); the signal then ends the process as it would have. Some at a time,
/// all made and ended by one thread; names that are too long for a file, or one too many, are not noted.
class LeftName {
 public:
  /// Touches no file: until is_there() nothing is removed.
  explicit LeftName(const std::string& name);
  LeftName(LeftName&& other) noexcept;
  LeftName& operator=(LeftName&& other) noexcept;
  LeftName(const LeftName&) = delete;
  LeftName& operator=(const LeftName&) = delete;
  /// Removes nothing.
  ~LeftName();

  /// The file is this process's own to remove, from now on.
  void is_there() const;
  /// It has another name now, or has been removed.
  void is_gone() const;

 private:
  std::optional<std::size_t> slot_;  // nothing: not noted, or moved from
};

}  // namespace penstock
