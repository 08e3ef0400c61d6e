// A result is as good as the knowledge of what made it. The version and the parts are known when the build is
// configured; the commit changes more often than that, so it has a source of its own, written in every build.

#include "cli/version.hpp"

#include <string>

#include <fmt/format.h>

namespace penstock {

std::string version_text() {
  return fmt::format("penstock {}\ncommit    {}\nLibTorch  {}\nCUDA      {}\nNCCL      {}\nMPI       {}\n",
                     PENSTOCK_VERSION, built_commit(), PENSTOCK_TORCH_PART, PENSTOCK_CUDA_PART,
                     PENSTOCK_NCCL_PART, PENSTOCK_MPI_PART);
}

}  // namespace penstock
