// Reads the arguments of a training run from a shell script. It evaluates only the parts of shell syntax that
// these arguments need:
//
//     NUM_NODES=${SLURM_NNODES:-4}                    NUM_NODES  -> 4
//     MODEL_ARGS=( --num-layers 32 --bf16 )           an array
//     if [[ $TYPE == "8b" ]]; then ... fi             decided if TYPE is known
//     torchrun ${MODEL_ARGS[@]} --nnodes $NUM_NODES   the command with most flags
//
// No command is run, so $(command) has no value. A variable without a value stays as ${NAME}. If an importer
// needs this value, its error message contains the name. If values grow without bounds, for example by 40
// lines A="$A$A", reading ends with an error. tests/scenarios/import_test.cpp checks these rules.

#include "scenarios/import/settings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "text/numbers.hpp"

namespace penstock {

namespace {

using Words = std::vector<std::string>;

bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// A statement of the script, without comments and continuations.
struct Statement {
  std::string text;
  int line = 1;
};

/// Splits a script into statements. A statement ends at a line end or at ';', but not inside quotes or
/// parentheses.
class StatementReader {
 public:
  explicit StatementReader(std::string_view text) : text_(text) {}

  std::vector<Statement> statements() {
    while (at_ < text_.size()) step();
    end_statement();
    return std::move(statements_);
  }

 private:
  char next(std::size_t ahead = 1) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n'; }

  void step() {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (c == '\\' && next() == '\r' && next(2) == '\n') ++at_;
    if (c == '\\' && quote_ != '\'') return step_escape();
    if (quote_ != '\0' || c == '\'' || c == '"') return step_quote(c);
    if (c == '#' && begins_word()) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      return;
    }
    count_depth(c);
    if ((c == '\n' || c == ';') && depth_ == 0) {
      ++at_;
      return end_statement();
    }
    keep(c == '\n' ? ' ' : c);
  }

  bool begins_word() const { return current_.empty() || is_blank(current_.back()) || current_.back() == '('; }

  /// Adds the character `c` to the current statement. If `c` opens or closes a quotation, records this.
  void step_quote(char c) {
    if (quote_ == '\0') {
      quote_ = c;
    } else if (c == quote_) {
      quote_ = '\0';
    }
    keep(c);
  }

  /// Updates the numbers of open parentheses and of open `${` braces after the character `c`.
  void count_depth(char c) {
    const bool follows_dollar = current_.ends_with('$');
    if (c == '(' || (c == '{' && follows_dollar)) ++depth_;
    if (c == '{' && follows_dollar) braces_.push_back(depth_);
    if (c == ')' && depth_ > 0) --depth_;
    if (c == '}' && !braces_.empty() && braces_.back() == depth_) {
      braces_.pop_back();
      --depth_;
    }
  }

  /// Reads a backslash. At the end of a line, the backslash joins the next line to the statement.
  void step_escape() {
    if (next() == '\n') {
      ++line_;
      at_ += 2;
      current_ += ' ';
      return;
    }
    current_ += '\\';
    ++at_;
    if (at_ < text_.size()) keep(text_[at_]);
  }

  void keep(char c) {
    if (current_.empty()) {
      if (is_blank(c)) {
        ++at_;
        return;
      }
      begun_ = line_;
    }
    current_ += c;
    ++at_;
  }

  void end_statement() {
    while (!current_.empty() && is_blank(current_.back())) current_.pop_back();
    if (!current_.empty()) statements_.push_back({.text = std::move(current_), .line = begun_});
    current_.clear();
    depth_ = 0;
    braces_.clear();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int begun_ = 1;
  int depth_ = 0;
  std::vector<int> braces_;
  char quote_ = '\0';
  std::string current_;
  std::vector<Statement> statements_;
};

/// An evaluator of $((...)) with whole numbers, the operators of kOperators, ?: and parentheses. Requires
/// that variable names are already replaced by their values.
class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : text_(text) {}

  std::optional<std::int64_t> value() {
    const auto result = choice();
    skip();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;
  static constexpr int kDeepest = 100;
  /// The largest number in a script, so that the product of two such numbers fits in 64 bits.
  static constexpr std::int64_t kMost = 1'000'000'000;

  struct Operator {
    std::string_view sign;
    std::size_t strength = 0;
    std::int64_t (*compute)(std::int64_t, std::int64_t) = nullptr;
  };
  using I = std::int64_t;
  // A longer sign comes before a sign that is its beginning.
  static constexpr auto kOperators = std::to_array<Operator>({
      {"||", 0, [](I left, I right) -> I { return left != 0 || right != 0 ? 1 : 0; }},
      {"&&", 1, [](I left, I right) -> I { return left != 0 && right != 0 ? 1 : 0; }},
      {"==", 2, [](I left, I right) -> I { return left == right ? 1 : 0; }},
      {"!=", 2, [](I left, I right) -> I { return left != right ? 1 : 0; }},
      {"<=", 3, [](I left, I right) -> I { return left <= right ? 1 : 0; }},
      {">=", 3, [](I left, I right) -> I { return left >= right ? 1 : 0; }},
      {"<", 3, [](I left, I right) -> I { return left < right ? 1 : 0; }},
      {">", 3, [](I left, I right) -> I { return left > right ? 1 : 0; }},
      {"+", 4, [](I left, I right) -> I { return left + right; }},
      {"-", 4, [](I left, I right) -> I { return left - right; }},
      {"*", 5, [](I left, I right) -> I { return left * right; }},
      {"/", 5, [](I left, I right) -> I { return left / right; }},
      {"%", 5, [](I left, I right) -> I { return left % right; }},
  });
  static constexpr std::size_t kStrengths = 6;

  void skip() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool takes(std::string_view sign) {
    skip();
    if (sign.empty() || !text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  Number choice() {
    const auto condition = level(0);
    if (!condition || !takes("?")) return condition;
    if (++depth_ > kDeepest) return std::nullopt;
    const auto yes = choice();
    if (!yes || !takes(":")) return std::nullopt;
    const auto no = choice();
    if (!no) return std::nullopt;
    return *condition != 0 ? yes : no;
  }
  /// Returns the value of an expression whose operators have at least this strength.
  Number level(std::size_t strength) {
    if (strength == kStrengths) return factor();
    auto left = level(strength + 1);
    while (left) {
      const auto found = std::ranges::find_if(
          kOperators, [&](const Operator& each) { return each.strength == strength && takes(each.sign); });
      if (found == kOperators.end()) break;
      const auto right = level(strength + 1);
      left = right ? result(*left, *found, *right) : std::nullopt;
    }
    return left;
  }
  static Number result(std::int64_t left, const Operator& sign, std::int64_t right) {
    const bool divides = sign.sign == "/" || sign.sign == "%";
    const std::int64_t most = sign.sign == "*" ? kMost : kMost * kMost;
    if ((divides && right == 0) || std::abs(left) > most || std::abs(right) > most) return std::nullopt;
    return sign.compute(left, right);
  }
  Number factor() {
    if (++depth_ > kDeepest) return std::nullopt;
    const auto result = plain_factor();
    --depth_;
    return result;
  }
  Number plain_factor() {
    if (takes("(")) {
      const auto inner = choice();
      return takes(")") ? inner : std::nullopt;
    }
    if (takes("-")) {
      const auto inner = factor();
      return inner ? std::optional(-*inner) : std::nullopt;
    }
    if (takes("!")) {
      const auto inner = factor();
      return inner ? std::optional<std::int64_t>(*inner == 0 ? 1 : 0) : std::nullopt;
    }
    skip();
    const auto number = leading_number<std::int64_t>(text_.substr(at_));
    at_ += number.spelling.size();
    return number.value && *number.value <= kMost ? number.value : std::nullopt;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;  ///< the open factors and all ?, so that a script cannot exhaust the stack
};

/// The state of an evaluated script: its variables, and the commands that it would run.
class ShellRun {
 public:
  explicit ShellRun(std::string_view text) : statements_(StatementReader(text).statements()) {}

  ShellCommand command() {
    for (const Statement& statement : statements_) {
      if (!result_.error.empty()) break;
      line_ = statement.line;
      run(statement.text);
    }
    if (best_.empty()) take_largest_variable();
    result_.words = best_;
    return std::move(result_);
  }

 private:
  enum class Truth : std::uint8_t { no, yes, unknown };
  /// An `if`, a loop or a `case` that is still open. It records whether its present branch runs, and whether
  /// an earlier branch ran.
  struct Branch {
    Truth runs = Truth::yes;
    Truth has_run = Truth::no;
    std::string condition{};  ///< the text of the condition; empty for a loop
    int line = 0;             ///< the line of the condition
  };

  Truth running() const {
    Truth all = Truth::yes;
    for (const Branch& branch : branches_) {
      if (branch.runs == Truth::no) return Truth::no;
      if (branch.runs == Truth::unknown) all = Truth::unknown;
    }
    return all;
  }

  /// Adds a note for each condition on which the current statement depends and whose result is unknown.
  void note_conditions() {
    for (const Branch& branch : branches_) {
      if (branch.runs == Truth::unknown && !branch.condition.empty())
        note_at(branch.line, "the condition cannot be decided: " + branch.condition);
    }
  }

  void note(std::string_view text) { note_at(line_, text); }

  void note_at(int line, std::string_view text) {
    std::string noted = fmt::format("line {}: {}", line, text);
    if (std::ranges::find(result_.notes, noted) == result_.notes.end())
      result_.notes.push_back(std::move(noted));
  }

  // --- control flow ---

  /// Removes `word` from the beginning of a statement. Returns false if the statement does not begin with
  /// this word.
  static bool takes_word(std::string& text, std::string_view word) {
    if (!text.starts_with(word)) return false;
    if (text.size() > word.size() && !is_blank(text[word.size()])) return false;
    text.erase(0, word.size());
    text.erase(0, text.find_first_not_of(" \t\n"));
    return true;
  }

  void begin_branch(const std::string& condition) {
    Branch branch;
    branch.runs = running() == Truth::no ? Truth::no : truth_of(condition);
    branch.has_run = branch.runs;
    branch.condition = condition;
    branch.line = line_;
    branches_.push_back(std::move(branch));
  }

  /// Enters the next branch of the innermost `if`. `condition` is the result of the branch's own condition.
  /// The branch does not run if an earlier branch has run.
  void next_branch(Truth condition) {
    if (branches_.empty()) return;
    Branch& branch = branches_.back();
    if (branch.has_run == Truth::yes) condition = Truth::no;
    if (branch.has_run == Truth::unknown && condition == Truth::yes) condition = Truth::unknown;
    branch.runs = condition;
    if (condition != Truth::no && branch.has_run != Truth::yes) branch.has_run = condition;
  }

  /// Enters a loop or a `case` statement. It is unknown whether its body runs, so the variables that the
  /// body sets become unknown.
  bool begin_loop(std::string& text) {
    for (const std::string_view loop : {"for", "while", "until", "case", "select"}) {
      if (!takes_word(text, loop)) continue;
      note(fmt::format("{} is not evaluated, so variables that it sets have no value", loop));
      branches_.push_back({.runs = running() == Truth::no ? Truth::no : Truth::unknown,
                           .has_run = Truth::yes,
                           .condition = {},
                           .line = line_});
      if (loop == "for") set_unknown(text.substr(0, text.find(' ')));
      return true;
    }
    return false;
  }

  void run(std::string text) {
    if (text == "fi" || text == "done" || text == "esac") {
      if (!branches_.empty()) branches_.pop_back();
      return;
    }
    if (takes_word(text, "if")) return begin_branch(text);
    if (takes_word(text, "elif")) return next_branch(truth_of(text));
    if (takes_word(text, "else")) {
      next_branch(Truth::yes);
      if (!text.empty()) run(std::move(text));
      return;
    }
    if (begin_loop(text)) return;
    if (takes_word(text, "then") || takes_word(text, "do") || takes_word(text, "{")) {
      if (!text.empty()) run(std::move(text));
      return;
    }
    if (text.empty() || text == "}") return;
    if (running() == Truth::no) return skip_options(text);
    run_list(text);
  }

  /// Evaluates a list of commands that are joined by && and ||. If a command is a test, its result decides
  /// whether the next command runs.
  void run_list(const std::string& text) {
    Truth runs = Truth::yes;
    for (const auto& [part, joined_by] : parts_of(text)) {
      if (joined_by == "||")
        runs = runs == Truth::unknown ? runs : runs == Truth::yes ? Truth::no : Truth::yes;
      if (is_test(part)) {
        if (runs == Truth::yes) runs = truth_of(part);
        continue;
      }
      if (runs == Truth::no) {
        runs = Truth::yes;  // the command before || is assumed to succeed
        continue;
      }
      if (runs == Truth::unknown)
        branches_.push_back({.runs = runs, .has_run = runs, .condition = text, .line = line_});
      run_simple(part);
      if (runs == Truth::unknown) branches_.pop_back();
      if (joined_by == "||") runs = Truth::yes;
    }
  }

  static bool is_test(std::string_view text) {
    return text.starts_with("[ ") || text.starts_with("[[ ") || text.starts_with("test ") ||
           text.starts_with("! ");
  }

  /// Splits a text at each && and || outside quotes and parentheses. Each part comes with the operator
  /// before it.
  static std::vector<std::pair<std::string, std::string>> parts_of(std::string_view text) {
    std::vector<std::pair<std::string, std::string>> parts = {{"", ""}};
    char quote = '\0';
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (quote != '\0') {
        if (c == quote) quote = '\0';
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '(') {
        ++depth;
      } else if (c == ')') {
        --depth;
      } else if (depth == 0 && (text.substr(i, 2) == "&&" || text.substr(i, 2) == "||")) {
        // An operator inside [[ ]] also ends a part. truth_of_test() reads each part as one test and ignores
        // the brackets.
        parts.emplace_back("", std::string(text.substr(i, 2)));
        ++i;
        continue;
      }
      if (parts.back().first.empty() && is_blank(c)) continue;
      parts.back().first += c;
    }
    for (auto& [part, joined_by] : parts) {
      while (!part.empty() && is_blank(part.back())) part.pop_back();
    }
    return parts;
  }

  // --- conditions ---

  Truth truth_of(const std::string& condition) {
    Truth all = Truth::yes;
    bool is_first = true;
    bool is_bracketed = false;  // whether an earlier part has opened brackets, as in [[ A && B ]]
    for (const auto& [part, joined_by] : parts_of(condition)) {
      const std::string_view positive = std::string_view(part).substr(part.starts_with("! ") ? 2 : 0);
      const bool is_command = !is_bracketed && !is_test(positive);
      is_bracketed = (is_bracketed || positive.starts_with('[')) && !positive.ends_with(']');
      const Truth one = is_command ? truth_of_command(part) : truth_of_test(part);
      all = is_first ? one : joined(all, one, joined_by == "&&" ? Truth::no : Truth::yes);
      is_first = false;
    }
    return all;
  }

  /// Returns the truth of two joined conditions. `decisive` is the truth of one of them that decides the
  /// whole: no for "&&", and yes for "||".
  static Truth joined(Truth one, Truth other, Truth decisive) {
    if (one == decisive || other == decisive) return decisive;
    return one == Truth::unknown || other == Truth::unknown ? Truth::unknown : one;
  }

  Truth truth_of_test(std::string text) {
    for (const std::string_view bracket : {"[[", "[", "test", "]]", "]"}) takes_word(text, bracket);
    const bool negates = takes_word(text, "!");
    Words raw = raw_words(text);
    std::erase_if(raw, [](const std::string& word) {
      return word == "[" || word == "[[" || word == "]" || word == "]]";
    });
    std::vector<std::optional<std::string>> values;
    for (const std::string& word : raw) values.push_back(tested_text(word));
    const Truth truth = test_value(values);
    if (!negates || truth == Truth::unknown) return truth;
    return truth == Truth::yes ? Truth::no : Truth::yes;
  }

  /// Returns the truth of a condition that is a command. Commands are not run, so only "true" and "false" are
  /// decided.
  static Truth truth_of_command(std::string_view text) {
    if (text == "true" || text == ":") return Truth::yes;
    return text == "false" ? Truth::no : Truth::unknown;
  }

  static Truth truth(bool value) { return value ? Truth::yes : Truth::no; }

  static Truth test_value(const std::vector<std::optional<std::string>>& values) {
    if (std::ranges::any_of(values, [](const auto& value) { return !value; })) return Truth::unknown;
    if (values.size() == 1) return truth(!values[0]->empty());
    if (values.size() == 2) {
      if (*values[0] == "-z") return truth(values[1]->empty());
      if (*values[0] == "-n") return truth(!values[1]->empty());
      return Truth::unknown;
    }
    if (values.size() != 3) return Truth::unknown;
    const std::string& sign = *values[1];
    if (sign == "=" || sign == "==") return truth(*values[0] == *values[2]);
    if (sign == "!=") return truth(*values[0] != *values[2]);
    const auto left = number_of_text<std::int64_t>(*values[0]);
    const auto right = number_of_text<std::int64_t>(*values[2]);
    if (!left || !right) return Truth::unknown;
    if (sign == "-eq") return truth(*left == *right);
    if (sign == "-ne") return truth(*left != *right);
    if (sign == "-gt") return truth(*left > *right);
    if (sign == "-ge") return truth(*left >= *right);
    if (sign == "-lt") return truth(*left < *right);
    if (sign == "-le") return truth(*left <= *right);
    return Truth::unknown;
  }

  /// Returns the text that a test would compare. A variable that the script never sets is empty. Returns
  /// nothing if the value of a variable cannot be known.
  std::optional<std::string> tested_text(const std::string& word) {
    tests_ = true;
    met_unknown_ = false;
    const Words words = expanded(word);
    tests_ = false;
    if (met_unknown_) return std::nullopt;
    return words.empty() ? std::string() : words.front();
  }

  // --- commands ---

  static std::ptrdiff_t count_flags(const Words& words) {
    return std::ranges::count_if(words, [](const std::string& word) { return word.starts_with("--"); });
  }

  /// Takes the variable that has the most flags, for a script without a command: another script reads it.
  void take_largest_variable() {
    std::string largest;
    for (const auto& [name, values] : variables_) {
      Words words;
      for (const std::string& value : values) add_word(words, value);
      if (count_flags(words) <= count_flags(best_)) continue;
      best_ = std::move(words);
      largest = name;
    }
    if (!largest.empty())
      result_.notes.push_back(fmt::format("the script has no command with flags: {} is read", largest));
  }

  /// Records the variables that a statement would set to flags, if its branch ran. If no other statement sets
  /// them, they have no flags.
  void skip_options(const std::string& text) {
    for (const std::string& word : raw_words(text)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || word.find("--", equals) == std::string::npos) continue;
      const std::string name =
          word.substr(0, word[equals == 0 ? 0 : equals - 1] == '+' ? equals - 1 : equals);
      if (!name.empty() && std::ranges::all_of(name, is_name_letter)) skipped_options_.insert(name);
    }
  }

  void run_simple(const std::string& text) {
    Words raw = raw_words(text);
    for (const std::string_view keyword : {"export", "local", "declare", "readonly", "typeset"}) {
      if (raw.empty() || raw.front() != keyword) continue;
      raw.erase(raw.begin());
      std::erase_if(raw, [](const std::string& word) { return word.starts_with('-'); });
    }
    std::size_t begin = 0;
    while (begin < raw.size() && assign(raw[begin])) ++begin;
    if (begin == raw.size()) return;
    if (raw[begin] == "source" || raw[begin] == ".") {
      note("another file is not read: " + text);
      return;
    }
    Words words;
    for (std::size_t i = begin; i < raw.size(); ++i) {
      for (std::string& word : expanded(raw[i])) add_word(words, std::move(word));
    }
    if (count_flags(words) > count_flags(best_)) best_ = std::move(words);
  }

  /// Appends a word to the arguments. If a quoted word contains several flags ("--lr 1 --bf16"), it is
  /// split into these flags.
  void add_word(Words& words, std::string word) {
    const bool has_flags = word.starts_with("--") || word.find(" --") != std::string::npos;
    const bool has_blanks = std::ranges::any_of(word, is_blank);
    if (!has_flags || !has_blanks) {
      words.push_back(std::move(word));
      return;
    }
    for (const std::string& part : raw_words(word)) {
      for (std::string& inner : expanded(part)) words.push_back(std::move(inner));
    }
  }

  /// Performs the assignment NAME=VALUE, NAME+=VALUE or NAME=( ... ). Returns false if the word is no
  /// assignment.
  bool assign(const std::string& word) {
    std::size_t end = 0;
    while (end < word.size() && is_name_letter(word[end])) ++end;
    if (end == 0 || end == word.size() || std::isdigit(static_cast<unsigned char>(word[0])) != 0)
      return false;
    const bool adds = word.substr(end, 2) == "+=";
    if (!adds && word[end] != '=') return false;
    const std::string name = word.substr(0, end);
    const std::string value = word.substr(end + (adds ? 2 : 1));
    const bool is_array = value.starts_with('(');
    Words values = is_array ? array_items(value) : Words{joined(expanded(value))};
    const bool is_of_command = !is_array && !adds && is_command_text(values.front());
    if (running() == Truth::unknown) note_conditions();
    if (is_of_command || (running() == Truth::unknown && !is_array)) {
      set_unknown(name);
      return true;
    }
    unknown_.erase(name);
    Words& variable = variables_[name];
    if (!adds) {
      variable = std::move(values);
    } else if (is_array) {
      for (std::string& item : values) variable.push_back(std::move(item));
    } else {
      if (variable.empty()) variable.emplace_back();
      variable.front() += values.front();
    }
    return true;
  }

  Words array_items(const std::string& value) {
    Words items;
    std::string inside = value.substr(1, value.size() - (value.ends_with(')') ? 2 : 1));
    for (const std::string& word : raw_words(inside)) {
      for (std::string& item : expanded(word)) add_word(items, std::move(item));
    }
    return items;
  }

  void set_unknown(const std::string& name) {
    variables_.erase(name);
    unknown_.insert(name);
  }

  static std::string joined(const Words& words) {
    std::string text;
    for (const std::string& word : words) {
      if (!text.empty()) text += ' ';
      text += word;
    }
    return text;
  }

  // --- words ---

  /// Splits a text into words at blanks outside quotes and parentheses. The words keep their quotation
  /// marks.
  static Words raw_words(std::string_view text) {
    Words words;
    std::string word;
    char quote = '\0';
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
        word += c;
        word += text[++i];
        continue;
      }
      if (quote != '\0') {
        if (c == quote) quote = '\0';
      } else if (c == '"' || c == '\'' || c == '`') {
        quote = c;
      } else if (c == '(' || (c == '{' && word.ends_with('$'))) {
        ++depth;
      } else if ((c == ')' || c == '}') && depth > 0) {
        --depth;
      } else if (is_blank(c) && depth == 0) {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
        continue;
      }
      word += c;
    }
    if (!word.empty()) words.push_back(std::move(word));
    return words;
  }

  /// Returns a word with its variables replaced and its quotes removed. An unquoted variable may become
  /// several words or none.
  Words expanded(std::string_view word) {
    Words words = {""};
    bool has_text = false;
    char quote = '\0';
    for (std::size_t i = 0; i < word.size();) {
      const char c = word[i];
      if (c == '\'' && quote != '"') {
        quote = quote == '\0' ? '\'' : '\0';
        has_text = true;
        ++i;
      } else if (c == '"' && quote != '\'') {
        quote = quote == '\0' ? '"' : '\0';
        has_text = true;
        ++i;
      } else if (c == '\\' && quote != '\'' && i + 1 < word.size()) {
        words.back() += word[i + 1];
        i += 2;
      } else if (c == '`' && quote != '\'') {
        i = std::min(word.find('`', i + 1), word.size() - 1) + 1;
        words.back() += command_text("a command in backquotes");
      } else if (c == '$' && quote != '\'' && i + 1 < word.size()) {
        add_values(words, dollar_values(word, i), quote == '"');
      } else {
        words.back() += c;
        ++i;
      }
    }
    if (words.size() == 1 && words.front().empty() && !has_text) words.clear();
    return words;
  }

  /// Appends the values of a variable to the last word. Unquoted values are split at blanks.
  static void add_values(Words& words, const Words& values, bool is_quoted) {
    Words pieces;
    for (const std::string& value : values) {
      if (is_quoted) {
        pieces.push_back(value);
        continue;
      }
      for (std::string& piece : raw_words(value)) pieces.push_back(std::move(piece));
    }
    if (pieces.empty()) return;
    words.back() += pieces.front();
    words.insert(words.end(), pieces.begin() + 1, pieces.end());
  }

  std::string unknown_text(const std::string& name) {
    met_unknown_ = true;
    return "${" + name + "}";
  }

  /// Returns a placeholder for the output of a command, which is not known.
  std::string command_text(std::string_view command) { return unknown_text(fmt::format("({})", command)); }
  /// Returns true if a value is only the output of a command. A value may also have such an output among
  /// other words, as in "--save run-$(date) --bf16", which must stay.
  static bool is_command_text(std::string_view value) {
    return value.starts_with("${(") && value.find("${", 1) == std::string_view::npos && value.ends_with(")}");
  }

  /// Returns `value`, and adds its length to the total that may be inserted. Beyond this limit, records an
  /// error and returns no words.
  Words counted(const Words& value) {
    constexpr std::size_t kMost = 16U << 20U;
    std::size_t length = value.size();
    for (const std::string& word : value) length += word.size();
    inserted_ += std::min(length, kMost);
    if (inserted_ <= kMost) return value;
    if (result_.error.empty()) {
      result_.error = fmt::format(
          "line {}: the values of variables insert more than {} MiB into this script; write the arguments "
          "of the run out, or print them with echo and import what it prints",
          line_, kMost >> 20U);
    }
    return {};
  }

  Words value_of(const std::string& name) {
    const auto found = variables_.find(name);
    if (found != variables_.end()) return counted(found->second);
    if (tests_ && !unknown_.contains(name)) return {""};
    // The script is read as if it was called without arguments, so $@ and $* contain no words.
    if (name == "@" || name == "*") return {};
    if (skipped_options_.contains(name) && !unknown_.contains(name)) return {};
    return {unknown_text(name)};
  }

  /// Returns the text between `at + 2` and the closing parenthesis or brace, and moves `at` behind it.
  static std::string_view enclosed(std::string_view word, std::size_t& at, char opening, char closing) {
    const std::size_t begin = at + 2;
    int depth = 0;
    for (++at; at < word.size(); ++at) {
      if (word[at] == opening) ++depth;
      if (word[at] == closing && --depth == 0) break;
    }
    const std::string_view inside = word.substr(std::min(begin, word.size()), at - std::min(begin, at));
    at = std::min(at + 1, word.size());
    return inside;
  }

  /// Evaluates $NAME, ${...}, $(...) or $((...)) at word[at]. Moves `at` to the position after it.
  Words dollar_values(std::string_view word, std::size_t& at) {
    const char opening = word[at + 1];
    if (opening == '(') {
      const std::string_view inside = enclosed(word, at, '(', ')');
      const bool is_sum = inside.size() > 1 && inside.starts_with('(');
      if (!is_sum) return {command_text(inside)};
      return {computed(inside.substr(1, inside.size() - 2))};
    }
    if (opening == '{') return braced_values(enclosed(word, at, '{', '}'));
    std::size_t end = at + 1;
    if (std::isdigit(static_cast<unsigned char>(opening)) != 0 || opening == '@' || opening == '*') {
      ++end;
    } else {
      while (end < word.size() && is_name_letter(word[end])) ++end;
    }
    const std::string name(word.substr(at + 1, end - at - 1));
    at = end;
    return name.empty() ? Words{"$"} : value_of(name);
  }

  /// Returns the values of ${NAME}, ${NAME:-default}, ${NAME-default}, ${NAME:=default} and ${NAME[@]}.
  Words braced_values(std::string_view inside) {
    std::size_t end = 0;
    while (end < inside.size() && is_name_letter(inside[end])) ++end;
    const std::string name(inside.substr(0, end));
    std::string_view rest = inside.substr(end);
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) return value_of(name);
    if (rest.empty()) return value_of(name);
    const bool has_colon = rest.starts_with(':');
    if (has_colon) rest.remove_prefix(1);
    const auto found = variables_.find(name);
    const bool is_set = found != variables_.end() && !(has_colon && joined(found->second).empty());
    if (rest.starts_with('-') || rest.starts_with('=')) {
      if (is_set) return counted(found->second);
      const Words fallback = expanded(rest.substr(1));
      if (rest.starts_with('=')) variables_[name] = {joined(fallback)};
      return {joined(fallback)};
    }
    if (rest.starts_with('+')) return is_set ? expanded(rest.substr(1)) : Words{""};
    return {unknown_text(std::string(inside))};
  }

  /// Returns the value of $((...)). In `text`, the variable names may stand with or without '$'.
  std::string computed(std::string_view text) {
    std::string numbers;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] == '$') {
        numbers += joined(dollar_values(text, i));
      } else if (std::isalpha(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_') {
        std::size_t end = i;
        while (end < text.size() && is_name_letter(text[end])) ++end;
        numbers += joined(value_of(std::string(text.substr(i, end - i))));
        i = end;
      } else {
        numbers += text[i++];
      }
    }
    const std::size_t open = numbers.find("${");
    if (open != std::string::npos) return numbers.substr(open, numbers.find('}', open) + 1 - open);
    const auto value = Arithmetic(numbers).value();
    return value ? fmt::format("{}", *value) : unknown_text(fmt::format("(({}))", text));
  }

  std::vector<Statement> statements_;
  std::map<std::string, Words> variables_;
  std::set<std::string> unknown_;
  std::set<std::string> skipped_options_;  ///< variables that only a branch which does not run sets to flags
  std::vector<Branch> branches_;
  Words best_;
  ShellCommand result_;
  int line_ = 1;
  bool tests_ = false;
  bool met_unknown_ = false;
  std::size_t inserted_ = 0;  ///< the length of all values of variables that were inserted
};

/// Returns the words of a line, divided at blanks.
std::vector<std::string_view> words_of_line(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
    if (word.starts_with('#')) break;
    if (!word.empty()) words.push_back(word);
    line.remove_prefix(word.size());
  }
  return words;
}

/// Returns the Slurm options of lines such as "#SBATCH --nodes=4 -p batch". They are marked as ignored.
std::vector<ImportedKey> batch_resources(std::string_view text) {
  std::vector<ImportedKey> resources;
  constexpr std::string_view kMark = "#SBATCH";
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(kMark)) continue;
    for (const std::string_view word : words_of_line(line.substr(kMark.size()))) {
      if (!word.starts_with('-')) {
        if (!resources.empty()) resources.back().value = word;
        continue;
      }
      const std::size_t end = std::min(word.find('='), word.size());
      const std::string_view value = word.substr(std::min(end + 1, word.size()));
      resources.push_back({.key = fmt::format("#SBATCH {}", word.substr(0, end)),
                           .value = value.empty() ? "true" : std::string(value),
                           .fate = Fate::ignored,
                           .text = ""});
    }
  }
  return resources;
}

bool names_program_file(std::string_view word) { return word.ends_with(".py") || word.ends_with(".sh"); }

}  // namespace

ShellCommand read_shell(std::string_view text) {
  ShellCommand command = ShellRun(text).command();
  command.resources = batch_resources(text);
  return command;
}

namespace {

/// Returns true if the word is a variable without a known value that may hold flags. "$@" and "$1" do not
/// count: they are arguments with which a script is called, and most scripts run without them.
bool may_hold_flags(std::string_view word) {
  if (!word.starts_with("${") || word.find('}') != word.size() - 1) return false;
  const std::string_view name = word.substr(2, word.size() - 3);
  return !name.empty() &&
         (std::isalpha(static_cast<unsigned char>(name.front())) != 0 || name.front() == '_');
}

/// Divides the words of a command into flags and their values, and adds them to settings.
class FlagReader {
 public:
  explicit FlagReader(Settings& settings) : settings_(settings) {}

  void read(const std::string& word) {
    if (word.starts_with("--") && word.size() > 2) return begin_flag(word);
    if (names_program_file(word) || word == "2>&1" || word == "|" || word == "&") {
      end_flag();
      is_after_program_ = names_program_file(word);
      return;
    }
    if (may_hold_flags(word) && (has_flag_ ? !value_.empty() : is_after_program_)) {
      end_flag();
      settings_.add(word, "true");
      settings_.refuse(word,
                       "may hold flags, and the file does not state its value; write the flags in its place");
    } else if (has_flag_) {
      value_ += value_.empty() ? word : " " + word;
    }
  }

  /// Adds the flag whose values were read last.
  void end_flag() {
    if (has_flag_) add(value_.empty() ? "true" : value_);
    has_flag_ = false;
    value_.clear();
  }

 private:
  void begin_flag(const std::string& word) {
    end_flag();
    const std::size_t equals = word.find('=');
    flag_ = word.substr(0, equals);
    has_flag_ = equals == std::string::npos;
    if (!has_flag_) add(equals + 1 == word.size() ? "null" : word.substr(equals + 1));
  }

  void add(const std::string& value) {
    settings_.add(flag_, value);
    if (flag_.find("${") != std::string::npos)
      settings_.refuse(flag_, "the name of this flag is not known before the script runs; write it out");
  }

  Settings& settings_;
  std::string flag_;
  std::string value_;
  bool has_flag_ = false;
  bool is_after_program_ = false;  // flags may follow
};

}  // namespace

void add_flags(Settings& settings, const std::vector<std::string>& words) {
  FlagReader reader(settings);
  for (const std::string& word : words) reader.read(word);
  reader.end_flag();
}

}  // namespace penstock
