#pragma once
// Handles with which subcommands declare their flags. CLI11 parses the arguments and prints the help. The
// header of CLI11 takes longer to compile than any subcommand, so only three source files include it. The
// functions have the same names as in CLI11.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
class Option;
}  // namespace CLI

namespace penstock {

/// The prefix in the name of a check. The rest of the name lists the words of a flag (see Flag::words()).
inline constexpr std::string_view kWordsPrefix = "words: ";

/// A flag or a positional argument that is being declared. Each function changes the flag and returns it.
class Flag {
 public:
  explicit Flag(CLI::Option& option) : option_(&option) {}

  /// Sets the heading under which the help lists the flag. If the heading is empty, the help does not list
  /// the flag, but users can still give it.
  Flag& group(const std::string& heading);
  /// Sets the text that follows the flag's name in the help, such as "BYTES".
  Flag& type_name(const std::string& name);
  Flag& required();
  /// Allows the user to repeat the flag. Each occurrence has one value.
  Flag& one_value_each();
  /// Makes it an error to give both this flag and `other`.
  Flag& excludes(const Flag& other);
  /// Adds a check of the flag's value. `fault` returns an error message for a wrong value, and an empty
  /// text for a correct one.
  Flag& check(const std::function<std::string(const std::string&)>& fault);
  /// Sets the words that a shell completes for this flag. Other values stay allowed, unless a check refuses
  /// them.
  Flag& words(const std::vector<std::string_view>& words);
  /// Gives the value `from` of the flag the meaning of the value `to`.
  Flag& replaces(const std::string& from, const std::string& to);
  /// Adds a check that the value is a decimal number in [least, most]. `Number` is int, std::int64_t or
  /// double, as in the flag's variable.
  template <typename Number>
  Flag& range(Number least, Number most);

 private:
  CLI::Option* option_;
};

/// A subcommand of the program. Copies of the handle refer to the same subcommand.
class Subcommand {
 public:
  Subcommand(CLI::App& root, const std::string& name, const std::string& description);

  /// Declares a flag "--name,-n,--other-name" or a positional argument "NAME" whose value is stored in
  /// `value`. `value` must exist while arguments are parsed, and it does not change if the flag is not
  /// given. Its type is a string, a number, an optional number or a vector of strings. A number must be
  /// decimal, and no other text may follow it. After parsing, an empty value is an error
  /// (command_line.cpp). An empty string therefore means that the flag was not given.
  template <typename Value>
  Flag add_option(const std::string& names, Value& value, const std::string& help = {});
  /// Declares a flag that takes words separated by commas. The user may repeat the flag. An empty word is
  /// an error.
  Flag add_words(const std::string& names, std::vector<std::string>& words, const std::string& help);
  Flag add_flag(const std::string& names, bool& value, const std::string& help);
  /// Declares a flag that stands for the value "true". Users can also give another value after "=".
  Flag add_flag(const std::string& names, std::string& value, const std::string& help);
  /// Sets the text at the end of the help.
  void footer(const std::string& text);
  /// Returns true if the user named this subcommand.
  [[nodiscard]] bool parsed() const;

 private:
  CLI::App* app_;
};

}  // namespace penstock
