#pragma once
// Command transcripts. They show commands, their output and their exit status as a user sees them.
//
//   # a comment
//   $ penstock schedules --quiet
//   naive
//   ...
//   ! a line on stderr begins with an exclamation mark
//   [exit 2]                      only if the status is not 0

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

/// One command and its outcome, in the form of a transcript.
struct TranscriptStep {
  std::string before;   ///< the comments and blank lines above the command
  std::string command;  ///< the text after "$ "
  std::string outcome;
};

std::vector<TranscriptStep> read_transcript(const std::filesystem::path& file);
std::string to_text(const std::vector<TranscriptStep>& steps);

/// Runs the command in a shell in `directory`, with `penstock` in its PATH. Returns its outcome.
std::string outcome_of(const std::string& command, const std::filesystem::path& directory);

}  // namespace penstock
