// Limits the address space of this process with RLIMIT_AS. A process that it starts with execv() inherits the
// limit. Therefore the old limit is stored, and other_executable.cpp restores it before execv().

#include "cli/address_space.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <optional>

#include "scenarios/host/memory_room.hpp"

namespace penstock {
namespace {

std::optional<rlimit>& bound_before() {
  static std::optional<rlimit> bound;
  return bound;
}

}  // namespace

void bound_address_space() {
// Sanitizers reserve more addresses than the machine has memory, and have limits of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const auto memory = memory_to_take();
  const auto mapped = addresses_in_use();
  rlimit bound{};
  if (!memory || !mapped || getrlimit(RLIMIT_AS, &bound) != 0) return;
  bound_before() = bound;
  bound.rlim_cur = std::min(bound.rlim_cur, static_cast<rlim_t>(*mapped + *memory));
  // If setrlimit() fails, a shape that is too large only ends with a worse message.
  static_cast<void>(setrlimit(RLIMIT_AS, &bound));
#endif
}

void restore_address_space() {
  if (bound_before()) static_cast<void>(setrlimit(RLIMIT_AS, &*bound_before()));
}

}  // namespace penstock
