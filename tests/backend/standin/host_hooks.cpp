// The hooks that -fsanitize=thread inserts before each memory access. The backend's objects are compiled with
// this option and linked with these hooks instead of the sanitizer's runtime. Accesses of the host to pinned
// and device memory are compared with accesses of streams. At an atomic, threads are ordered, and another
// thread may run.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include <fmt/format.h>

#include "tests/backend/standin/world.hpp"

namespace {

using standin::scheduler;
using standin::this_thread;
using standin::world;

/// Returns the name of the function that contains the address. The name is never freed.
const char* name_at(const void* address) {
  static std::set<std::string> names;
  Dl_info info{};
  const bool known = dladdr(address, &info) != 0 && info.dli_sname != nullptr;
  return names.insert(known ? info.dli_sname : "host code").first->c_str();
}

void host_access(const void* memory, std::size_t bytes, bool writes, const void* from) {
  if (this_thread == nullptr || !world().memory.knows(memory)) return;
  const standin::Toucher self{.what = name_at(from), .slot = this_thread->slot, .on_host = true};
  if (world().memory.is_device_memory(memory)) {
    world().defect(fmt::format("{} touches device memory", standin::to_text(self)));
  }
  world().memory.touch({memory, bytes, writes}, self, this_thread->clock);
}

/// Treats all atomics as sequentially consistent. If the product uses a memory order that is too weak, this
/// is not detected here, but by the preset with the thread sanitizer.
void before_atomic(const volatile void* atomic, bool writes) {
  if (this_thread == nullptr) return;
  if (scheduler->random(8) == 0) scheduler->maybe_let_others_run();
  scheduler->acquire(const_cast<const void*>(atomic));
  if (writes) scheduler->release(const_cast<const void*>(atomic));
}

void after_atomic_read(const volatile void* atomic) {
  if (this_thread != nullptr) scheduler->acquire(const_cast<const void*>(atomic));
}

template <typename Number>
Number load(const volatile Number* atomic) {
  before_atomic(atomic, false);
  const Number value = *atomic;
  after_atomic_read(atomic);
  return value;
}

template <typename Number>
bool compare_exchange(volatile Number* atomic, Number* expected, Number desired) {
  before_atomic(atomic, true);
  return __atomic_compare_exchange_n(atomic, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

}  // namespace

// These hooks do nothing. Volatile accesses come from kernels and are recorded by the operations of the
// device. The hooks for functions and virtual tables are not needed.
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_read1(void* memory) { host_access(memory, 1, false, __builtin_return_address(0)); }
void __tsan_write1(void* memory) { host_access(memory, 1, true, __builtin_return_address(0)); }
void __tsan_volatile_read1(void*) {}
void __tsan_volatile_write1(void*) {}
void __tsan_read2(void* memory) { host_access(memory, 2, false, __builtin_return_address(0)); }
void __tsan_write2(void* memory) { host_access(memory, 2, true, __builtin_return_address(0)); }
void __tsan_unaligned_read2(void* memory) { host_access(memory, 2, false, __builtin_return_address(0)); }
void __tsan_unaligned_write2(void* memory) { host_access(memory, 2, true, __builtin_return_address(0)); }
void __tsan_volatile_read2(void*) {}
void __tsan_volatile_write2(void*) {}
void __tsan_read4(void* memory) { host_access(memory, 4, false, __builtin_return_address(0)); }
void __tsan_write4(void* memory) { host_access(memory, 4, true, __builtin_return_address(0)); }
void __tsan_unaligned_read4(void* memory) { host_access(memory, 4, false, __builtin_return_address(0)); }
void __tsan_unaligned_write4(void* memory) { host_access(memory, 4, true, __builtin_return_address(0)); }
void __tsan_volatile_read4(void*) {}
void __tsan_volatile_write4(void*) {}
void __tsan_read8(void* memory) { host_access(memory, 8, false, __builtin_return_address(0)); }
void __tsan_write8(void* memory) { host_access(memory, 8, true, __builtin_return_address(0)); }
void __tsan_unaligned_read8(void* memory) { host_access(memory, 8, false, __builtin_return_address(0)); }
void __tsan_unaligned_write8(void* memory) { host_access(memory, 8, true, __builtin_return_address(0)); }
void __tsan_volatile_read8(void*) {}
void __tsan_volatile_write8(void*) {}
void __tsan_read16(void* memory) { host_access(memory, 16, false, __builtin_return_address(0)); }
void __tsan_write16(void* memory) { host_access(memory, 16, true, __builtin_return_address(0)); }
void __tsan_unaligned_read16(void* memory) { host_access(memory, 16, false, __builtin_return_address(0)); }
void __tsan_unaligned_write16(void* memory) { host_access(memory, 16, true, __builtin_return_address(0)); }
void __tsan_volatile_read16(void*) {}
void __tsan_volatile_write16(void*) {}
void __tsan_read_range(void* memory, std::size_t bytes) {
  host_access(memory, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* memory, std::size_t bytes) {
  host_access(memory, bytes, true, __builtin_return_address(0));
}

std::uint8_t __tsan_atomic8_load(const volatile std::uint8_t* atomic, int) { return load(atomic); }
void __tsan_atomic8_store(volatile std::uint8_t* atomic, std::uint8_t value, int) {
  before_atomic(atomic, true);
  *atomic = value;
}
std::uint8_t __tsan_atomic8_exchange(volatile std::uint8_t* atomic, std::uint8_t value, int) {
  before_atomic(atomic, true);
  return __atomic_exchange_n(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint8_t __tsan_atomic8_fetch_add(volatile std::uint8_t* atomic, std::uint8_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_add(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint8_t __tsan_atomic8_fetch_sub(volatile std::uint8_t* atomic, std::uint8_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_sub(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint8_t __tsan_atomic8_fetch_or(volatile std::uint8_t* atomic, std::uint8_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_or(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint8_t __tsan_atomic8_fetch_and(volatile std::uint8_t* atomic, std::uint8_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_and(atomic, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic8_compare_exchange_strong(volatile std::uint8_t* atomic, std::uint8_t* expected,
                                           std::uint8_t desired, int, int) {
  return compare_exchange(atomic, expected, desired) ? 1 : 0;
}
int __tsan_atomic8_compare_exchange_weak(volatile std::uint8_t* atomic, std::uint8_t* expected,
                                         std::uint8_t desired, int, int) {
  return compare_exchange(atomic, expected, desired) ? 1 : 0;
}
std::uint16_t __tsan_atomic16_load(const volatile std::uint16_t* atomic, int) { return load(atomic); }
void __tsan_atomic16_store(volatile std::uint16_t* atomic, std::uint16_t value, int) {
  before_atomic(atomic, true);
  *atomic = value;
}
std::uint16_t __tsan_atomic16_exchange(volatile std::uint16_t* atomic, std::uint16_t value, int) {
  before_atomic(atomic, true);
  return __atomic_exchange_n(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint16_t __tsan_atomic16_fetch_add(volatile std::uint16_t* atomic, std::uint16_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_add(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint16_t __tsan_atomic16_fetch_sub(volatile std::uint16_t* atomic, std::uint16_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_sub(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint16_t __tsan_atomic16_fetch_or(volatile std::uint16_t* atomic, std::uint16_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_or(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint16_t __tsan_atomic16_fetch_and(volatile std::uint16_t* atomic, std::uint16_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_and(atomic, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic16_compare_exchange_strong(volatile std::uint16_t* atomic, std::uint16_t* expected,
                                            std::uint16_t desired, int, int) {
  return compare_exchange(atomic, expected, desired) ? 1 : 0;
}
int __tsan_atomic16_compare_exchange_weak(volatile std::uint16_t* atomic, std::uint16_t* expected,
                                          std::uint16_t desired, int, int) {
  return compare_exchange(atomic, expected, desired) ? 1 : 0;
}
std::uint32_t __tsan_atomic32_load(const volatile std::uint32_t* atomic, int) { return load(atomic); }
void __tsan_atomic32_store(volatile std::uint32_t* atomic, std::uint32_t value, int) {
  before_atomic(atomic, true);
  *atomic = value;
}
std::uint32_t __tsan_atomic32_exchange(volatile std::uint32_t* atomic, std::uint32_t value, int) {
  before_atomic(atomic, true);
  return __atomic_exchange_n(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_add(volatile std::uint32_t* atomic, std::uint32_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_add(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_sub(volatile std::uint32_t* atomic, std::uint32_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_sub(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_or(volatile std::uint32_t* atomic, std::uint32_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_or(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_and(volatile std::uint32_t* atomic, std::uint32_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_and(atomic, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_compare_exchange_strong(volatile std::uint32_t* atomic, std::uint32_t* expected,
                                            std::uint32_t desired, int, int) {
  return compare_exchange(atomic, expected, desired) ? 1 : 0;
}
int __tsan_atomic32_compare_exchange_weak(volatile std::uint32_t* atomic, std::uint32_t* expected,
                                          std::uint32_t desired, int, int) {
  return compare_exchange(atomic, expected, desired) ? 1 : 0;
}
std::uint64_t __tsan_atomic64_load(const volatile std::uint64_t* atomic, int) { return load(atomic); }
void __tsan_atomic64_store(volatile std::uint64_t* atomic, std::uint64_t value, int) {
  before_atomic(atomic, true);
  *atomic = value;
}
std::uint64_t __tsan_atomic64_exchange(volatile std::uint64_t* atomic, std::uint64_t value, int) {
  before_atomic(atomic, true);
  return __atomic_exchange_n(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint64_t __tsan_atomic64_fetch_add(volatile std::uint64_t* atomic, std::uint64_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_add(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint64_t __tsan_atomic64_fetch_sub(volatile std::uint64_t* atomic, std::uint64_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_sub(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint64_t __tsan_atomic64_fetch_or(volatile std::uint64_t* atomic, std::uint64_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_or(atomic, value, __ATOMIC_SEQ_CST);
}
std::uint64_t __tsan_atomic64_fetch_and(volatile std::uint64_t* atomic, std::uint64_t value, int) {
  before_atomic(atomic, true);
  return __atomic_fetch_and(atomic, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic64_compare_exchange_strong(volatile std::uint64_t* atomic, std::uint64_t* expected,
                                            std::uint64_t desired, int, int) {
  return compare_exchange(atomic, expected, desired) ? 1 : 0;
}
int __tsan_atomic64_compare_exchange_weak(volatile std::uint64_t* atomic, std::uint64_t* expected,
                                          std::uint64_t desired, int, int) {
  return compare_exchange(atomic, expected, desired) ? 1 : 0;
}

}  // extern "C"
