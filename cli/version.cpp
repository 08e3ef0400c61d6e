// A result is as good as the knowledge of what made it. The version and the parts are known when the build is
// configured; the commit changes more often than that, so it has a source of its own, written in every build.

#include "cli/version.hpp"

#include <string>

#include <fmt/format.h>

namespace penstock {

std::string version_text() {
  const BuiltParts parts = built_parts();
  return fmt::format("penstock {}\ncommit    {}\nLibTorch  {}\nCUDA      {}\nNCCL      {}\nMPI       {}\n",
                     parts.version, built_commit(), parts.torch, parts.cuda, parts.nccl, parts.mpi);
}

}  // namespace penstock
