// The command line of validation.hpp:
//
//     gpu_validation [--quick] [-o FILE.md]
//
// Exit codes: 0 if all controls succeeded and the mean error is within the target; 1 if not, or if a run
// failed; 2 for wrong arguments; 3 for an error of the device; 77 if there is no GPU.

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "bench/gpu/validation.hpp"

namespace penstock {
namespace {

constexpr int kNotAvailable = 77;  // for test runners, this code means "skipped"

void print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

int status_of(ValidationOutcome outcome) {
  switch (outcome) {
    case ValidationOutcome::good:
      return 0;
    case ValidationOutcome::no_gpu:
      return kNotAvailable;
    case ValidationOutcome::failed:
      break;
  }
  return 1;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  penstock::ValidationRequest request{.print = penstock::print};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--quick") {
      request.quick = true;
    } else if (argument == "-o" && i + 1 < argc) {
      request.file = argv[++i];
    } else {
      std::fputs("gpu_validation [--quick] [-o FILE.md]\n", stderr);
      return 2;
    }
  }
  try {
    return penstock::status_of(penstock::validate(request));
  } catch (const std::exception& error) {
    std::fputs((std::string("gpu_validation: ") + error.what() + "\n").c_str(), stderr);
    return 3;
  }
}
