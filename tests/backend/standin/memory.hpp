#pragma once
// Memory of devices and pinned memory, and who has touched which bytes of it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/backend/standin/vector_clock.hpp"

namespace standin {

/// Bytes that an operation or the host reads or writes.
struct Access {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

/// Who touches them: put into words in reports alone.
struct Toucher {
  const char* what = "";  ///< a name that lasts: of a kernel or function
  std::size_t slot = 0;   ///< of its clock
  bool on_host = false;
};
std::string to_text(const Toucher& toucher);

class Memory {
 public:
  enum class Kind : std::uint8_t { device, pinned };

  /// Filled with a pattern.
  void* allocate(Kind kind, int device, std::size_t bytes);
  /// False: there is no such memory, or it was freed before. It stays where it is, and is watched.
  bool free(const void* memory, const Toucher& by, const VectorClock& seen);
  bool knows(const void* memory) const { return find(memory) != nullptr; }
  bool is_device_memory(const void* memory) const;
  int device_of(const void* memory) const;
  /// Reports a race, and what is no memory, or freed.
  void touch(const Access& access, const Toucher& by, const VectorClock& seen);
  /// To be asked by a copy that has touched both. True: the copy before it was the same, and neither side has
  /// been written since, so that it would change nothing.
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
  /// The last large copy into an allocation, with how often both sides had been written then.
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

  std::map<const std::byte*, Allocation> allocations_;  // by address, for looking up alone
  std::vector<const std::byte*> in_order_;
};

}  // namespace standin
