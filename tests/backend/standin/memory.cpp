// Two accesses to the same bytes are a race if at least one is a write and no order exists between them. For
// each range of bytes, the last writes and one read of each slot are stored. Accesses that are ordered before
// a later write of the same bytes are removed. Freed memory is not reused, so that late accesses are
// detected.

#include "tests/backend/standin/memory.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tests/backend/standin/world.hpp"

namespace standin {
namespace {

// The bytes of new memory; they are not 0, so that reads of unwritten memory give wrong results.
constexpr int kPattern = 0xA5;
// After each allocation, so that an access beyond its end does not reach the next allocation.
constexpr std::size_t kRedZone = 256;
constexpr std::size_t kLarge = std::size_t{1} << 20;  // smaller copies are always made

}  // namespace

std::string to_text(const Toucher& toucher) {
  return fmt::format("{} {} {}", toucher.what, toucher.on_host ? "by host thread" : "on stream",
                     toucher.slot);
}

void* Memory::allocate(Kind kind, int device, std::size_t bytes) {
  auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes + kRedZone);
  std::memset(memory.get(), kPattern, bytes);
  std::byte* begin = memory.get();
  in_order_.push_back(begin);
  allocations_.emplace(begin, Allocation{kind, device, bytes, std::move(memory)});
  return begin;
}

const Memory::Allocation* Memory::find(const void* memory) const {
  const auto* begin = static_cast<const std::byte*>(memory);
  auto found = allocations_.upper_bound(begin);
  if (found == allocations_.begin()) return nullptr;
  --found;
  return begin < found->first + std::max<std::size_t>(found->second.bytes, 1) ? &found->second : nullptr;
}

bool Memory::is_device_memory(const void* memory) const {
  const Allocation* found = find(memory);
  return found != nullptr && found->kind == Kind::device;
}

int Memory::device_of(const void* memory) const {
  const Allocation* found = find(memory);
  return found == nullptr ? -1 : found->device;
}

bool Memory::free(const void* memory, const Toucher& by, const VectorClock& seen) {
  const auto found = allocations_.find(static_cast<const std::byte*>(memory));
  if (found == allocations_.end() || found->second.freed) return false;
  touch({.begin = memory, .bytes = found->second.bytes, .writes = true}, by, seen);
  found->second.freed = true;
  return true;
}

void Memory::touch(const Access& access, const Toucher& by, const VectorClock& seen) {
  if (access.bytes == 0) return;
  auto* allocation = const_cast<Allocation*>(find(access.begin));
  if (allocation == nullptr) {
    world().defect(fmt::format("{} touches memory that is not the device's", to_text(by)));
    return;
  }
  const auto* begin = static_cast<const std::byte*>(access.begin);
  const std::size_t from = static_cast<std::size_t>(begin - allocation->memory.get());
  if (allocation->freed) world().defect(fmt::format("{} touches freed memory", to_text(by)));
  if (from + access.bytes > allocation->bytes) {
    world().defect(fmt::format("{} touches {} bytes behind the end of its memory", to_text(by),
                               from + access.bytes - allocation->bytes));
    return;
  }
  if (access.writes) ++allocation->writes;
  compare(*allocation, {from, from + access.bytes, access.writes, seen.of(by.slot), by}, seen);
}

/// Compares an access with all stored accesses of the allocation, and reports races. Then it removes earlier
/// accesses of the same bytes if this write is ordered after them, or if the same slot made them. An access
/// that races with a removed access also races with this one.
void Memory::compare(Allocation& allocation, const Touch& now, const VectorClock& seen) {
  for (const Touch& before : allocation.touches) {
    const bool overlaps = before.begin < now.end && now.begin < before.end;
    const bool ordered = seen.of(before.by.slot) >= before.time;
    if (!overlaps || ordered || (!before.writes && !now.writes)) continue;
    world().defect(fmt::format("race: {} {} bytes {} to {} of {}, which {} {}, and nothing orders the two",
                               to_text(now.by), now.writes ? "writes" : "reads", now.begin, now.end,
                               allocation.bytes, to_text(before.by), before.writes ? "writes" : "reads"));
  }
  std::erase_if(allocation.touches, [&](const Touch& before) {
    const bool covered = now.begin <= before.begin && before.end <= now.end;
    const bool again = before.by.slot == now.by.slot && before.writes == now.writes;
    return covered && ((now.writes && seen.of(before.by.slot) >= before.time) || again);
  });
  allocation.touches.push_back(now);
}

bool Memory::already_holds(const void* to, const void* from, std::size_t bytes) {
  auto* target = const_cast<Allocation*>(find(to));
  const Allocation* source = find(from);
  if (bytes < kLarge || target == nullptr || source == nullptr || target == source) return false;
  const Copy before = target->copied;
  target->copied = {to, from, bytes, source->writes, target->writes};
  return before.to == to && before.from == from && before.bytes == bytes &&
         before.writes_from == source->writes && before.writes_to + 1 == target->writes;
}

void Memory::report_leaks() const {
  for (const std::byte* begin : in_order_) {
    const Allocation& allocation = allocations_.at(begin);
    if (allocation.freed) continue;
    world().defect(fmt::format("leak: {} bytes of {} memory", allocation.bytes,
                               allocation.kind == Kind::device ? "device" : "pinned"));
  }
}

}  // namespace standin
