// Makes the text of --version: the version, the commit, and the parts of the program that were built. The
// version and the parts are determined when the build is configured. The commit changes more often, so every
// build writes it into a separate source file.

#include "cli/executable.hpp"

#include <string>

#include <fmt/format.h>

namespace penstock {

std::string version_text() {
  const BuiltParts parts = built_parts();
  return fmt::format("penstock {}\ncommit    {}\nLibTorch  {}\nCUDA      {}\nNCCL      {}\n", parts.version,
                     built_commit(), parts.torch, parts.cuda, parts.nccl);
}

}  // namespace penstock
