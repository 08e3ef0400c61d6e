// A command runs in an empty environment with only four variables. PATH has the folder of `penstock` first,
// the locale is UTF-8, the time zone is UTC, and TMPDIR is a new folder that is removed afterwards. So the
// outcome does not depend on the user or the machine. In the outcome the folder's name is replaced by
// $TMPDIR.

#include "tests/cli/transcript.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/test_files.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Returns the text with `mark` before every line. If the last line break is missing, adds a line that says
/// so.
std::string marked(const std::string& text, std::string_view mark) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) result += std::string(mark) + line + "\n";
  if (!text.empty() && text.back() != '\n') result += "[no line break]\n";
  return result;
}

/// Returns the text with every `from` replaced by `to`.
std::string replaced(std::string text, const std::string& from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// Runs a shell command. Returns its exit status, or 128 + S if signal S ended it, as shells do.
int run(const std::string& script) {
  const int status = std::system(script.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::vector<TranscriptStep> read_transcript(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<TranscriptStep> steps;
  std::string before;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("$ ")) {
      steps.push_back({before, line.substr(2), ""});
      before.clear();
    } else if (line.empty() || line.starts_with('#')) {
      before += line + "\n";
    } else if (!steps.empty()) {
      steps.back().outcome += before + line + "\n";  // blank lines inside an outcome are part of it
      before.clear();
    }
  }
  return steps;
}

std::string to_text(const std::vector<TranscriptStep>& steps) {
  std::string text;
  for (const TranscriptStep& step : steps) text += step.before + "$ " + step.command + "\n" + step.outcome;
  return text;
}

std::string outcome_of(const std::string& command, const fs::path& directory) {
  const ScratchFolder folder;
  const fs::path& scratch = folder.path();
  const fs::path script = folder.write("command.sh", command + '\n');
  const fs::path bin = fs::path(PENSTOCK_EXECUTABLE).parent_path();
  // The command is written to a file, so that its quotes need no escaping here.
  const std::string line = "cd '" + directory.string() + "' && env -i PATH='" + bin.string() +
                           "':/usr/bin:/bin LC_ALL=C.UTF-8 TZ=UTC TMPDIR='" + scratch.string() + "' sh '" +
                           script.string() + "' </dev/null >'" + (scratch / "out").string() + "' 2>'" +
                           (scratch / "err").string() + "'";
  const int status = run(line);
  std::string outcome = marked(content_of(scratch / "out"), "") + marked(content_of(scratch / "err"), "! ");
  outcome = replaced(std::move(outcome), scratch.string(), "$TMPDIR");
  if (status != 0) outcome += "[exit " + std::to_string(status) + "]\n";
  return outcome;
}

}  // namespace penstock
