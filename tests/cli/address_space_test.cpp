// The bound on addresses, which must not reach the executables that `penstock` becomes.

#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "cli/address_space.hpp"

namespace penstock {
namespace {

rlim_t bound_now() {
  rlimit bound{};
  getrlimit(RLIMIT_AS, &bound);
  return bound.rlim_cur;
}

TEST(AddressSpace, WhatStartsBehindABoundProcessHasTheBoundFromBefore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep their own bounds";
#endif
  // In a child, since a bound of this process would stay.
  EXPECT_EXIT(
      {
        const rlim_t before = bound_now();
        bound_address_space();
        const rlim_t bounded = bound_now();
        restore_address_space();
        _exit(bounded < before && bound_now() == before ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(AddressSpace, WithoutABoundThereIsNothingToRestore) {
  const rlim_t before = bound_now();
  restore_address_space();
  EXPECT_EQ(bound_now(), before);
}

}  // namespace
}  // namespace penstock
