#pragma once
// Answers `penstock autopsy` for a log with Megatron's timers: what each stage costs, which ranks are slow,
// and why ranks would wait in a pipeline with these costs.

#include <string>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"

namespace penstock {

/// A log of Megatron-LM.
struct TimersLog {
  std::string file;
  std::string text;
};

/// Prints the answer and writes its files. `meant` states the schedule (default 1f1b, or interleaved for
/// several chunks) and what the log does not say of its shape.
Outcome run_timers(const TimersLog& log, const InputFlags& meant, const OutputFlags& output);

}  // namespace penstock
