// The entry points of libFuzzer. One executable has all targets, and PENSTOCK_FUZZ_TARGET names the target to
// run. If a requirement fails, the process crashes, so that libFuzzer stores the bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "tests/fuzz/targets.hpp"

namespace {

const penstock::FuzzTarget* target = nullptr;

}  // namespace

/// libFuzzer calls this function before it reads its arguments. So the names of the targets can be listed.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("PENSTOCK_FUZZ_TARGET");
  const auto& targets = penstock::fuzz_targets();
  const auto found =
      std::ranges::find(targets, std::string_view(name == nullptr ? "" : name), &penstock::FuzzTarget::name);
  if (found == targets.end()) {
    std::fputs("PENSTOCK_FUZZ_TARGET must be one of:\n", stderr);
    for (const auto& one : targets) std::fprintf(stderr, "%s\n", one.name.data());
    std::exit(2);
  }
  target = &*found;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    target->read({data, size});
  } catch (const std::exception& broken) {
    std::fprintf(stderr, "%s: %s\n", target->name.data(), broken.what());
    std::abort();
  }
  return 0;
}
