#pragma once
// Answers `penstock autopsy` for a log with Megatron-LM's timers. The answer says what each stage costs,
// which ranks are slow, and why ranks would wait in a pipeline with these costs. autopsy_command.cpp
// answers for recordings of single actions.

#include <string>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"

namespace penstock {

/// A log of Megatron-LM that contains its timers.
struct TimersLog {
  std::string file;
  std::string text;
};

/// Prints the answer of `penstock autopsy` for the log and writes its files. `meant` states what the log
/// does not say: the schedule (default 1f1b, or interleaved for several chunks) and parts of its shape.
Outcome run_timers(const TimersLog& log, const InputFlags& meant, const OutputFlags& output);

}  // namespace penstock
