// libFuzzer's entry: one executable for all targets, of which PENSTOCK_FUZZ_TARGET names one. A sentence that
// does not hold ends the process as a crash does, so that libFuzzer keeps the bytes.

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

/// Before libFuzzer looks at its arguments, so that the names can be asked for.
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
