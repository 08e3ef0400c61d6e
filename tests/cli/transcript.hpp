#pragma once
// Command transcripts: commands with what they print and their exit status, as a user sees them.
//
//   # a comment
//   $ penstock schedules --quiet
//   naive
//   ...
//   ! a line on stderr begins with an exclamation mark
//   [exit 2]                      only where it is not 0

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

/// One command and its outcome in the transcript's form.
struct TranscriptStep {
  std::string before;   ///< comments and blank lines above it
  std::string command;  ///< what follows "$ "
  std::string outcome;
};

std::vector<TranscriptStep> read_transcript(const std::filesystem::path& file);
std::string to_text(const std::vector<TranscriptStep>& steps);

/// Runs the command in a shell with `penstock` in its path, in `directory`, and returns its outcome.
std::string outcome_of(const std::string& command, const std::filesystem::path& directory);

}  // namespace penstock
