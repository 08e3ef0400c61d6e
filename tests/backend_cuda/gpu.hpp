#pragma once
// Skips tests that need a GPU if there is none, and prints the reason.

#include <gtest/gtest.h>

#include "backend/cuda/workers.hpp"

#define PENSTOCK_NEEDS_GPU() \
  if (const auto found = penstock::cuda_devices(); !found) GTEST_SKIP() << found.error()

#define PENSTOCK_NEEDS_NO_GPU() \
  if (const auto found = penstock::cuda_devices(); found) GTEST_SKIP() << "this machine has a GPU"
