// penstock selftest: checks the GPUs of this machine, one by one and in pairs. Only the executable with
// the GPU backends can check them. Any other executable replaces itself by that one (measuring.hpp).

#include <tl/expected.hpp>

#include "cli/commands/commands.hpp"
#include "cli/executable.hpp"
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
  if (!answer) return user_error(answer.error().kind, "selftest: " + answer.error().message);
  if (auto written = write_stdout(answer->text); !written) return tl::unexpected(written.error());
  return answer->all_right ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace

Command selftest_command(CLI::App& root, const Invocation& invocation) {
  Subcommand app(root, "selftest", "Check this machine's GPUs: timer, partitions, copies, pairs, NCCL.");
  app.footer(
      "Needs a GPU, and takes about a minute. On the first GPU it checks the timer, stated holds, partitions "
      "of 2, 4 "
      "and 8 workers, copies between them and how many launches a stream takes. With one GPU, NCCL sends to "
      "itself, "
      "sums and aborts. With several, each pair exchanges up to 64 MiB, whose numbers must arrive as they "
      "were sent, "
      "and a small program runs over NCCL on a process a GPU. Exit status 1: something is wrong; 77: no "
      "GPU.");
  return {app, [&invocation] { return run_selftest(invocation); }};
}

}  // namespace penstock
