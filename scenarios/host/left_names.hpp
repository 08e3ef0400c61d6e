#pragma once
// Names of files that must not remain when a signal ends this process.

#include <cstddef>
#include <optional>
#include <string>

namespace penstock {

/// A name whose file SIGINT, SIGTERM and SIGHUP remove, as long as this object lives and the file exists. A
/// signal that other code handles or that is ignored (nohup) does not remove it. Afterwards the signal ends
/// the process as usual. One thread must create and destroy all objects. Names beyond the number of slots,
/// and too long names, are not recorded.
class LeftName {
 public:
  /// Records the name without touching the file. Nothing is removed before is_there().
  explicit LeftName(const std::string& name);
  LeftName(LeftName&& other) noexcept;
  LeftName& operator=(LeftName&& other) noexcept;
  LeftName(const LeftName&) = delete;
  LeftName& operator=(const LeftName&) = delete;
  /// Removes no file.
  ~LeftName();

  /// Declares that the file exists and belongs to this process, so that a signal removes it.
  void is_there() const;
  /// Declares that the file has another name now or was removed.
  void is_gone() const;

 private:
  std::optional<std::size_t> slot_;  // empty if the name is not recorded or the object was moved from
};

}  // namespace penstock
