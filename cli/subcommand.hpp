#pragma once
// The handles with which subcommands declare flags. CLI11 parses and prints the help. Its header takes longer
// to compile than any subcommand, so only two sources include it. Functions have CLI11's names.

#include <functional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
class Option;
}  // namespace CLI

namespace penstock {

/// A flag or a positional argument during its declaration. Each function changes it and returns it.
class Flag {
 public:
  explicit Flag(CLI::Option& option) : option_(&option) {}

  /// Sets its heading in the help. With an empty heading the flag works but is left out of the help.
  Flag& group(const std::string& heading);
  /// Sets the text after its name in the help: "BYTES".
  Flag& type_name(const std::string& name);
  Flag& required();
  /// Lets the flag be repeated, with one value each.
  Flag& one_value_each();
  /// Refuses this flag together with `other`.
  Flag& excludes(const Flag& other);
  /// Refuses a value for which `fault` returns a message.
  Flag& check(const std::function<std::string(const std::string&)>& fault);
  /// Refuses a value that is no decimal number in [least, most]. `Number` is int, std::int64_t or double,
  /// like the variable of the flag.
  template <typename Number>
  Flag& range(Number least, Number most);

 private:
  CLI::Option* option_;
};

/// A subcommand of the tree. Copies refer to the same one.
class Subcommand {
 public:
  Subcommand(CLI::App& root, const std::string& name, const std::string& description);

  /// Binds "--name,-n,--other-name", or a positional NAME, to `value`. `value` must exist while arguments are
  /// parsed, and does not change if the flag is not given. It may be a string, a number, an optional number
  /// or a vector of strings. A number must be decimal and the whole text. An empty value is refused after
  /// parsing (command_line.cpp), so an empty string means that the flag was not given.
  template <typename Value>
  Flag add_option(const std::string& names, Value& value, const std::string& help = {});
  /// Adds a flag that takes non-empty words separated by commas, in one value or several.
  Flag add_words(const std::string& names, std::vector<std::string>& words, const std::string& help);
  Flag add_flag(const std::string& names, bool& value, const std::string& help);
  /// Sets the end of the help.
  void footer(const std::string& text);
  /// Returns whether the arguments named this subcommand.
  [[nodiscard]] bool parsed() const;

 private:
  CLI::App* app_;
};

}  // namespace penstock
