// Tests invalid values for every flag of every command that `penstock COMMAND --help` lists. An empty value
// must be refused and must not count as an absent flag. A number must be read as decimal digits or refused.
// New flags are tested automatically, but a new kind of value must be added to value_of().

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command_line.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

using Words = std::vector<std::string>;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

struct Said {
  int status = 0;
  std::string out;
  std::string err;
};

/// Runs the command in this process.
Said said(const Words& command) {
  std::vector<const char*> arguments = {"penstock"};
  for (const std::string& argument : command) arguments.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Said said;
  said.status = static_cast<int>(run_command_line(static_cast<int>(arguments.size()), arguments.data(), {}));
  said.err = testing::internal::GetCapturedStderr();
  said.out = testing::internal::GetCapturedStdout();
  return said;
}

/// One line of a help text, such as "--pp-size N    K, ranks", "-o,--output FILE ..." or "CONFIG FILE
/// REQUIRED".
struct Listed {
  Words names;
  std::string type;  ///< such as "N"; empty if the flag takes no value
  bool required = false;
};

struct ListedCommand {
  std::string name;
  std::vector<Listed> flags;
  std::vector<Listed> positionals;

  /// Returns the command with a value for each required argument.
  Words with_required() const {
    Words words = {name};
    for (const Listed& positional : positionals) {
      if (positional.required) words.emplace_back("nothing.yaml");
    }
    return words;
  }
};

/// Returns the words in the first column of a help line. Empty if the line continues the text of another
/// line.
Words first_column(const std::string& line) {
  if (!line.starts_with("  ") || line.starts_with("   ")) return {};
  std::istringstream column(line.substr(0, line.find("  ", 2)));
  Words words;
  for (std::string word; column >> word;) words.push_back(word);
  return words;
}

Words names_of(const std::string& column) {
  Words names;
  std::istringstream parts(column);
  for (std::string name; std::getline(parts, name, ',');) names.push_back(name);
  return names;
}

Listed listed(const Words& column) {
  Listed one{.names = names_of(column.front()), .type = {}, .required = column.back() == "REQUIRED"};
  // "Excludes: --gallery" describes no value.
  if (column.size() > 1 && !column[1].ends_with(':')) one.type = column[1];
  return one;
}

ListedCommand command_of_help(const std::string& name) {
  ListedCommand command{.name = name, .flags = {}, .positionals = {}};
  std::istringstream help(said({name, "--help"}).out);
  std::string heading;
  for (std::string line; std::getline(help, line);) {
    if (line == "Examples:") break;
    if (!line.empty() && !line.starts_with(' ')) heading = line;
    const Words column = first_column(line);
    if (column.empty()) continue;
    if (column.front().starts_with('-')) command.flags.push_back(listed(column));
    if (heading == "Positionals:") command.positionals.push_back(listed(column));
  }
  return command;
}

std::vector<ListedCommand> commands_of_help() {
  std::vector<ListedCommand> commands;
  std::istringstream help(said({"--help"}).out);
  bool is_list = false;
  for (std::string line; std::getline(help, line);) {
    if (is_list && line.empty()) break;
    if (is_list) commands.push_back(command_of_help(first_column(line).front()));
    is_list |= line == "Subcommands:";
  }
  return commands;
}

const std::vector<ListedCommand>& commands() {
  static const std::vector<ListedCommand> all = commands_of_help();
  return all;
}

Words with(Words command, const Words& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::string line_of(const Words& command) {
  std::string line = "penstock";
  for (const std::string& word : command) line += " '" + word + "'";
  return line;
}

void expect_refused(const Words& command, std::string_view begin, std::string_view found) {
  const Said one = said(command);
  EXPECT_EQ(one.status, 2) << line_of(command) << "\n" << one.err;
  EXPECT_EQ(one.out, "") << line_of(command);
  EXPECT_THAT(one.err,
              AllOf(StartsWith(std::string(begin)), HasSubstr("expected"), HasSubstr(std::string(found))))
      << line_of(command);
}

/// The kinds of values that flags take.
enum class Value { number, numbers, quantity, other };

Value value_of(const std::string& type) {
  static const std::map<std::string, Value> kinds = {
      {"N", Value::number},         {"NUMBER", Value::number},   {"X", Value::number},
      {"FRACTION", Value::number},  {"F", Value::number},        {"CHANCE", Value::number},
      {"SECONDS", Value::number},   {"COLUMNS", Value::number},  {"NUMBERS", Value::numbers},
      {"LIST", Value::numbers},     {"BYTES", Value::quantity},  {"TIME", Value::quantity},
      {"RATE", Value::quantity},    {"NAME", Value::other},      {"NAMES", Value::other},
      {"WORD", Value::other},       {"WORDS", Value::other},     {"FILE", Value::other},
      {"KEY", Value::other},        {"KEY=VALUE", Value::other}, {"MODEL", Value::other},
      {"KEY=VALUES", Value::other}, {"RELEASE", Value::other},   {"RULE", Value::other},
      {"LAUNCHER", Value::other},   {"SIZE", Value::other},      {"SHARE", Value::other},
      {"WHEN", Value::other},       {"FORM", Value::other},      {"DEVICE=FILE", Value::other},
      {"NAME=N", Value::other},     {"I/N", Value::other},       {"PART", Value::other},
      {"R", Value::number},         {"ACTION", Value::other},    {"MM", Value::number},
      {"POINTS", Value::number},    {"TEXT", Value::other},
  };
  const auto found = kinds.find(type);
  EXPECT_NE(found, kinds.end()) << type << " is a new kind of value: say above whether it is a number";
  return found == kinds.end() ? Value::other : found->second;
}

/// Texts that some number parsers accept but no user means as a number: other bases, infinities, signs,
/// blanks and separators.
const Words kNoNumbers = {"0x2",  "1e999", "nan", "inf",  "-1",    "99999999999999999999",
                          " 5",   "5 ",    "+5",  "5,5x", "1_000", "0b1",
                          "1:30", "one",   "."};

TEST(FlagValues, TheHelpListsAllCommandsAndTheirFlags) {
  EXPECT_EQ(commands().size(), 28U);
  std::size_t flags = 0;
  for (const ListedCommand& command : commands()) flags += command.flags.size();
  EXPECT_GT(flags, 290U);
}

TEST(FlagValues, AnEmptyOneIsRefused) {
  for (const ListedCommand& command : commands()) {
    for (const Listed& flag : command.flags) {
      if (flag.type.empty()) continue;
      for (const std::string& name : flag.names) {
        const std::string begin = "penstock " + command.name + ": " + flag.names.back() + ": expected";
        expect_refused(with(command.with_required(), {name, ""}), begin, "got nothing");
      }
    }
  }
}

TEST(FlagValues, NothingBehindAnEqualsSignIsRefused) {
  for (const ListedCommand& command : commands()) {
    for (const Listed& flag : command.flags) {
      for (const std::string& name : flag.names) {
        if (!name.starts_with("--")) continue;
        expect_refused(with(command.with_required(), {name + "="}), "penstock: " + name + "=: expected",
                       "got nothing");
      }
    }
  }
}

TEST(FlagValues, AnEmptyNameOfAFileIsRefused) {
  for (const ListedCommand& command : commands()) {
    if (command.positionals.empty()) continue;
    Words empty = {command.name};
    for (const Listed& positional : command.positionals) {
      if (positional.required || empty.size() == 1) empty.emplace_back("");
    }
    expect_refused(empty, "penstock " + command.name + ": " + command.positionals.front().names.front(),
                   "got nothing");
  }
}

TEST(FlagValues, EmptyPartsOfAListAreRefused) {
  for (const std::string command : {"sweep", "tune"}) {
    for (const std::string value : {",", "1f1b,", ",1f1b", "1f1b,,gpipe"})
      expect_refused({command, "--schedule", value}, "penstock " + command + ": --schedule: expected", value);
  }
}

TEST(FlagValues, AnEmptySettingIsRefused) {
  for (const ListedCommand& command : commands()) {
    if (std::ranges::none_of(command.flags, [](const Listed& flag) { return flag.names.back() == "--set"; }))
      continue;
    // The settings of some commands are read from a file first. This file exists, so the setting is the only
    // error.
    Words words = {command.name, source_path("scenarios/library/vgg16-cluster-a.yaml")};
    if (command.name == "check" || command.name == "convert") words = {command.name};
    for (const std::string value : {"training.iterations=", "training.iterations= "}) {
      expect_refused(with(words, {"--set", value}), "penstock: --set training.iterations: expected a value",
                     "got nothing");
    }
    expect_refused(with(words, {"--set", "=3"}), "penstock: --set: expected KEY=VALUE", "\"=3\"");
  }
}

TEST(FlagValues, NumbersAreDecimalOrRefused) {
  for (const ListedCommand& command : commands()) {
    for (const Listed& flag : command.flags) {
      if (flag.type.empty() || value_of(flag.type) != Value::number) continue;
      const std::string& name = flag.names.back();
      for (const std::string& text : kNoNumbers) {
        expect_refused(with(command.with_required(), {name, text}),
                       "penstock " + command.name + ": " + name + ": expected a", "number from");
      }
    }
  }
}

/// Returns the suffixes that the command's output files may have. They are listed in the error for a wrong
/// suffix.
Words suffixes_of(const ListedCommand& command) {
  const std::string refused = said(with(command.with_required(), {"-o", "x.none"})).err;
  const std::string begin = "expected a name that ends in ";
  const std::size_t at = refused.find(begin);
  if (at == std::string::npos) return {};
  Words suffixes;
  std::istringstream list(refused.substr(at + begin.size()));
  for (std::string suffix; std::getline(list >> std::ws, suffix, ',');)
    suffixes.push_back(suffix.substr(0, suffix.find('\n')));
  return suffixes;
}

// The input files of the command do not exist, so this error must come before they are read.
TEST(FlagValues, AnOutputThatCannotBeIsRefusedBeforeTheWork) {
  std::size_t writing = 0;
  for (const ListedCommand& command : commands()) {
    if (std::ranges::none_of(command.flags, [](const Listed& flag) { return flag.names.front() == "-o"; }))
      continue;
    ++writing;
    const Words suffixes = suffixes_of(command);
    EXPECT_FALSE(suffixes.empty()) << command.name;
    for (const std::string& suffix : suffixes) {
      const Words words = with(command.with_required(), {"-o", "nowhere/x" + suffix});
      const Said one = said(words);
      EXPECT_EQ(one.status, 2) << line_of(words);
      EXPECT_EQ(one.out, "") << line_of(words);
      EXPECT_EQ(one.err, "penstock: -o nowhere/x" + suffix + ": the directory nowhere does not exist\n");
    }
  }
  EXPECT_EQ(writing, commands().size() - 4) << "only selftest, init, completion and man have no -o";
}

/// Returns the text before the file name in the flag's value. Empty optional if the value names no file.
std::optional<std::string> before_a_file(const Listed& flag) {
  if (flag.type == "FILE") return "";
  if (flag.type == "DEVICE=FILE") return "b200-sxm=";
  if (flag.names.back() == "--set") return "model=";
  return std::nullopt;
}

/// Returns one command for each argument that may name `file`: each input file, and each output file other
/// than -o.
std::vector<Words> commands_with(const ListedCommand& command, const std::string& file) {
  std::vector<Words> all;
  // The arguments of reproduce and schedules are names.
  const bool are_names = command.name == "reproduce" || command.name == "schedules";
  const std::size_t files = are_names ? 0 : command.positionals.size();
  for (std::size_t i = 0; i < files; ++i) {
    Words words = {command.name};
    for (std::size_t k = 0; k < command.positionals.size(); ++k) {
      if (k <= i || command.positionals[k].required) words.push_back(k == i ? file : "nothing.yaml");
    }
    all.push_back(words);
  }
  for (const Listed& flag : command.flags) {
    const auto begin = before_a_file(flag);
    if (begin) all.push_back(with(command.with_required(), {flag.names.back(), *begin + file}));
  }
  return all;
}

TEST(FlagValues, AnOutputThatTheCommandReadsOrWritesElsewhereIsRefused) {
  const ScratchFolder folder;
  std::size_t tried = 0;
  for (const ListedCommand& command : commands()) {
    for (const std::string& suffix : suffixes_of(command)) {
      const std::string file = folder.write("x" + suffix, "kept\n");
      for (const Words& words : commands_with(command, file)) {
        ++tried;
        const Words writing = with(words, {"-o", file});
        const Said one = said(writing);
        EXPECT_EQ(one.status, 2) << line_of(writing);
        EXPECT_EQ(one.out, "") << line_of(writing);
        EXPECT_THAT(one.err, AllOf(StartsWith("penstock: -o " + file + ": is the same file as "),
                                   HasSubstr(" " + file + ", which it would replace: name another file\n")))
            << line_of(writing);
        EXPECT_EQ(test::text_of(file), "kept\n") << line_of(writing);
      }
    }
  }
  EXPECT_GT(tried, 150U);
}

TEST(FlagValues, NorDoesTheOtherOutputOfACheckReplaceWhatItReads) {
  const ScratchFolder folder;
  const std::string file = folder.write("base.json", "kept\n");
  const std::string link = folder.path() / "base.xml";
  std::filesystem::create_symlink("base.json", link);
  const Said one = said({"check", "--baseline", file, "--junit", link});
  EXPECT_EQ(one.status, 2);
  EXPECT_EQ(one.err, "penstock: --junit " + link + ": is the same file as --baseline " + file +
                         ", which it would replace: name another file\n");
  EXPECT_EQ(test::text_of(file), "kept\n");
}

/// A command with everything that it needs before it reads the values of `flags`.
struct Complete {
  Words command;
  Words flags;
  std::string unit;
};

std::vector<Complete> complete_commands() {
  const Words model = {"--model",
                       source_path("scenarios/library/models/llama-3.1-8b.json"),
                       "--device",
                       "h100-sxm",
                       "--sequence",
                       "8192",
                       "--global-batch-size",
                       "64"};
  const Words shape = {"--schedule", "1f1b", "--pp-size", "2", "--num-microbatches", "4"};
  const std::string layers = source_path("scenarios/library/vgg16-cluster-a.yaml");
  const std::string iterations = source_path("scenarios/library/runs/vtrain_iterations.csv");
  return {
      {with({"tune"}, model),
       {"--tensor-parallel", "--context-parallel", "--expert-parallel", "--data-parallel", "--pp-size",
        "--virtual-stages", "--micro-batch-size"},
       ""},
      {with({"tune"}, model), {"--memory-limit"}, "B"},
      {{"sweep", "--schedule", "1f1b", "--num-microbatches", "4"}, {"--pp-size"}, ""},
      {{"sweep", "--schedule", "1f1b", "--pp-size", "2"}, {"--num-microbatches"}, ""},
      {{"sweep", "--schedule", "1f1b", "--pp-size", "2", "--num-microbatches", "4"},
       {"--virtual-stages"},
       ""},
      {{"plan", layers}, {"--memory-limit"}, "B"},
      {{"plan", layers}, {"--noise"}, ""},
      {with({"simulate"}, shape), {"--eager"}, "B"},
      {with({"show"}, shape), {"--eager"}, "B"},
      {with({"check"}, shape), {"--eager"}, "B"},
      {with({"convert"}, shape), {"--eager"}, "B"},
      {with({"run"}, shape), {"--eager"}, "B"},
      {with({"risk"}, shape), {"--mtbf"}, "h"},
      {with({"risk", "--mtbf", "50000h"}, shape),
       {"--checkpoint-cost", "--restart", "--checkpoint-every"},
       "h"},
      {with({"calibrate"}, shape), {"--sizes"}, ""},
      {{"fit", iterations}, {"--bandwidth"}, "GB/s"},
  };
}

TEST(FlagValues, ListsAndQuantitiesAreDecimalOrRefused) {
  for (const Complete& one : complete_commands()) {
    for (const std::string& flag : one.flags) {
      for (const std::string& text : kNoNumbers) {
        // Blanks may stand around a number that has a unit.
        const bool blank = text.starts_with(' ') || text.ends_with(' ');
        // A rate is not stored in 64-bit integers, so the large number is valid.
        const bool large = text.starts_with("9999") && one.unit == "GB/s";
        if (!one.unit.empty() && (blank || large)) continue;
        expect_refused(with(one.command, {flag, text + one.unit}), "penstock: " + flag, "got ");
      }
    }
  }
}

TEST(FlagValues, LeadingZerosChangeNoNumber) {
  const auto outcome = [](const Words& command) {
    const Said one = said(command);
    return std::pair(one.out, one.err);
  };
  const std::array<std::pair<Words, std::array<std::string, 3>>, 6> numbers = {{
      {{"simulate", "--schedule", "1f1b", "--pp-size", "2", "--num-microbatches"}, {"010", "10", "8"}},
      {{"simulate", "--schedule", "1f1b", "--num-microbatches", "12", "--pp-size"}, {"010", "10", "8"}},
      {{"simulate", "--schedule", "1f1b", "--pp-size", "2", "--num-microbatches", "4", "--iterations"},
       {"010", "10", "8"}},
      {{"schedules", "--figures", "--pp-size"}, {"08", "8", "9"}},
      {{"simulate", "--schedule", "1f1b", "--pp-size", "2", "--num-microbatches", "4", "--eager"},
       {"010 B", "10 B", "8 B"}},
      {{"sweep", "--schedule", "1f1b", "--pp-size", "2", "--num-microbatches"}, {"010,012", "10,12", "8,10"}},
  }};
  for (const auto& [command, values] : numbers) {
    EXPECT_EQ(outcome(with(command, {values[0]})), outcome(with(command, {values[1]}))) << line_of(command);
    EXPECT_NE(outcome(with(command, {values[0]})), outcome(with(command, {values[2]}))) << line_of(command);
  }
}

}  // namespace
}  // namespace penstock
