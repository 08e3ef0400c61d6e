#pragma once
// The parts that an executable has in addition to the core (extensions). `penstock` has none.
// `penstock-torch` has networks on LibTorch. `penstock-cuda` also has the GPU backends. All executables
// have the same subcommands. If a run needs another executable, `penstock` replaces itself by it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "backend/calibration/calibration_samples.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "cli/outcome.hpp"
#include "report/result/result.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"

namespace penstock {

/// The arguments of `penstock run` for the backend of an extension. The references are valid only during the
/// call.
struct BackendCall {
  const Experiment& experiment;
  const PaceOfLinks& pace;
  const RunOptions& options;
  const Jitter& jitter;
};

/// The result of `penstock selftest`.
struct SelfTestAnswer {
  std::string text;  ///< The text for the terminal.
  bool all_right = true;
};

struct Extensions {
  /// The functions that run an experiment on a backend, by the backend's name for --backend. Such a
  /// function returns nothing if another process has the result, as measure() does.
  std::map<std::string, std::function<tl::expected<std::optional<Result>, UserError>(const BackendCall&)>>
      backends;
  /// The function that makes modules for an experiment with a network. It is empty if this executable has no
  /// networks. It returns an error if the network does not fit the experiment.
  std::function<tl::expected<std::unique_ptr<ModuleFamily>, std::string>(const Experiment&)> network;
  /// The function that measures the times and bytes of a network's layers on this machine. It is empty if
  /// this executable has no networks.
  std::function<tl::expected<LayerGraph, std::string>(const NetworkSpec&, const ProfileOptions&)> profile;
  /// The function that checks this machine's GPUs. It is empty if this executable has no GPU code.
  std::function<tl::expected<SelfTestAnswer, UserError>()> selftest{};
};

/// The arguments and the extensions of the running program.
struct Invocation {
  std::vector<std::string> arguments;  ///< The elements of argv.
  Extensions extensions;
};

// The parts of main() that all executables share. They run the program, limit the address space, and start
// another executable.

/// The setting that says whether the address space of the process is limited. With a limit, a shape that
/// needs too much memory ends with an error (exit code 2). Without a limit, the kernel might kill
/// processes. Executables with GPU libraries need `unbounded`, because these libraries reserve more
/// addresses than the machine has memory.
enum class AddressSpace : std::uint8_t { bounded_by_memory, unbounded };

/// Runs penstock with these arguments and returns its exit code.
int program_main(int argc, const char* const* argv, AddressSpace addresses, Extensions extensions);

/// Limits the address space to its present size plus three quarters of the available memory, including
/// limits of control groups. Without this limit, the kernel could grant more memory than exists and later
/// kill a process. With the limit, allocations throw std::bad_alloc.
void bound_address_space();

/// Restores the limit of the address space that the process had at its start. Must be called before
/// become(), because CUDA and NCCL reserve more addresses than the machine has memory.
void restore_address_space();

/// Replaces this process by the executable `executable` in the same folder, with the same arguments.
/// Returns only if this fails. The error (exit code 77) says that `what` needs the executable.
UserError become(std::string_view executable, const std::vector<std::string>& arguments,
                 std::string_view what);

// The files that `penstock init` writes. Their texts are in cli/starters, and cli/CMakeLists.txt makes
// starters() from them.

/// An example file with comments, from which a user starts.
struct Starter {
  std::string_view word;  ///< the word for the command line
  std::string_view file;  ///< the name of the file, relative to the working folder
  std::string_view text;
};

std::span<const Starter> starters();

// Makes the text of `penstock --version`.

/// Returns the commit from which this program was built, or a text which says that it is unknown.
/// cmake/commit.cmake generates the definition in every build.
std::string_view built_commit();

/// The versions of Penstock (`version`) and of its optional parts, which CMake writes. The text of a part is
/// its version, or "left out: " and the reason.
struct BuiltParts {
  std::string_view version;
  std::string_view torch;
  std::string_view cuda;
  std::string_view nccl;
};

/// Returns the texts of this build. CMake generates the definition from `built_parts.cpp.in`.
BuiltParts built_parts();

/// Returns a text with the version and the commit. For each optional part, it also has the part's version,
/// or the reason why the part is missing.
std::string version_text();

}  // namespace penstock
