// Limits the addresses of this process with RLIMIT_AS. execv() passes the limit on, so the old value is
// stored and restored before the process becomes another executable (other_executable.cpp).

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
// Sanitizers reserve more addresses than there is memory and have their own limits.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const auto memory = memory_to_take();
  const auto mapped = addresses_in_use();
  rlimit bound{};
  if (!memory || !mapped || getrlimit(RLIMIT_AS, &bound) != 0) return;
  bound_before() = bound;
  bound.rlim_cur = std::min(bound.rlim_cur, static_cast<rlim_t>(*mapped + *memory));
  // If it fails, a huge shape only ends with a worse message.
  static_cast<void>(setrlimit(RLIMIT_AS, &bound));
#endif
}

void restore_address_space() {
  if (bound_before()) static_cast<void>(setrlimit(RLIMIT_AS, &*bound_before()));
}

}  // namespace penstock
