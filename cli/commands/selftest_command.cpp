// penstock selftest: checks the GPUs of this machine: right bytes between each pair, their speed, a sum over
// all. Only the executable that has the backends of GPUs can, so others become it.

#include <tl/expected.hpp>

#include "backend/executor/measured_run.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/measuring.hpp"
#include "cli/extensions.hpp"
#include "cli/other_executable.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/subcommand.hpp"

namespace penstock {
namespace {

Outcome run_selftest(const Invocation& invocation) {
  if (!invocation.extensions.selftest) {
    return tl::unexpected(become("penstock-cuda", invocation.arguments, "selftest"));
  }
  const auto answer = invocation.extensions.selftest();
  if (!answer)
    return failure_of({.message = "selftest: " + answer.error().message, .fault = answer.error().fault});
  if (auto written = write_stdout(answer->text); !written) return tl::unexpected(written.error());
  return answer->all_right ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace

Command selftest_command(CLI::App& root, const Invocation& invocation) {
  Subcommand app(root, "selftest", "Check this machine's GPUs: pairs, ring, links, NCCL.");
  app.footer(
      "Needs two GPUs or more, and takes about a minute. Each pair exchanges a few bytes and then up to 64 "
      "MiB, whose numbers must arrive as they were sent; a line through the times gives latency and "
      "bandwidth. With NCCL, a small program runs on a process a GPU. Exit status 1: something arrived "
      "wrong; 77: too few GPUs.");
  return {app, [&invocation] { return run_selftest(invocation); }};
}

}  // namespace penstock
