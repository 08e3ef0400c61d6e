#pragma once
// Memory of devices and pinned memory, and a record of the accesses to it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/backend/standin/vector_clock.hpp"

namespace standin {

/// A range of bytes that an operation or the host reads or writes.
struct Access {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

/// The operation or host function that makes an access. It becomes text only in reports.
struct Toucher {
  const char* what = "";  ///< the name of a kernel or function; it is never freed
  std::size_t slot = 0;   ///< the slot of its clock
  bool on_host = false;
};
std::string to_text(const Toucher& toucher);

class Memory {
 public:
  enum class Kind : std::uint8_t { device, pinned };

  /// Allocates memory and fills it with a pattern.
  void* allocate(Kind kind, int device, std::size_t bytes);
  /// Frees memory. Returns false if there is no such memory, or if it was freed before. Freed memory is not
  /// reused, and later accesses to it are detected.
  bool free(const void* memory, const Toucher& by, const VectorClock& seen);
  bool knows(const void* memory) const { return find(memory) != nullptr; }
  bool is_device_memory(const void* memory) const;
  int device_of(const void* memory) const;
  /// Records an access. Reports a race, and an access to bytes that are not allocated or were freed.
  void touch(const Access& access, const Toucher& by, const VectorClock& seen);
  /// Returns true if a copy would change nothing: the previous copy was the same, and neither side was
  /// written since. The caller must have recorded the accesses of the copy before.
  bool already_holds(const void* to, const void* from, std::size_t bytes);
  void report_leaks() const;

 private:
  struct Touch {
    std::size_t begin;
    std::size_t end;
    bool writes;
    std::uint64_t time;
    Toucher by;
  };
  /// The last large copy into an allocation, and the number of writes to both sides at that time.
  struct Copy {
    const void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
    std::uint64_t writes_from = 0;
    std::uint64_t writes_to = 0;
  };
  struct Allocation {
    Kind kind;
    int device;
    std::size_t bytes;
    std::unique_ptr<std::byte[]> memory;
    bool freed = false;
    std::vector<Touch> touches{};
    std::uint64_t writes = 0;
    Copy copied{};
  };
  const Allocation* find(const void* memory) const;
  static void compare(Allocation& allocation, const Touch& now, const VectorClock& seen);

  std::map<const std::byte*, Allocation> allocations_;  // by address, used only for look-ups
  std::vector<const std::byte*> in_order_;
};

}  // namespace standin
