#pragma once
// What a subcommand declares of its flags. CLI11 parses and prints the help; these two handles are all that
// the subcommands see of it, so that its header, which takes longer to compile than any of them, is read in
// two sources. Names of functions are CLI11's.

#include <functional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
class Option;
}  // namespace CLI

namespace penstock {

/// A flag or a positional argument, while it is declared: each function changes it and returns it.
class Flag {
 public:
  explicit Flag(CLI::Option& option) : option_(&option) {}

  /// The heading in the help; empty: taken, but left out of the help.
  Flag& group(const std::string& heading);
  /// What stands behind the name in the help: "BYTES".
  Flag& type_name(const std::string& name);
  Flag& required();
  /// Named several times, each with one value of its own.
  Flag& one_value_each();
  /// Not beside this one.
  Flag& excludes(const Flag& other);
  /// Refuses a value of which `fault` says something.
  Flag& check(const std::function<std::string(const std::string&)>& fault);
  /// Refuses what is no decimal number in [least, most]. Of int, std::int64_t and double, as the flag is
  /// bound.
  template <typename Number>
  Flag& range(Number least, Number most);

 private:
  CLI::Option* option_;
};

/// A subcommand of the tree. Copies are the same one.
class Subcommand {
 public:
  Subcommand(CLI::App& root, const std::string& name, const std::string& description);

  /// Binds "--name,-n,--other-name", or a positional NAME, to `value`, which must live while arguments are
  /// parsed and is left alone where the flag is not given. Of strings, numbers, optional numbers, and vectors
  /// of strings. Numbers are read in decimal, all of the text. An empty value is refused after parsing
  /// (command_line.cpp), so that an empty string means that the flag was not given.
  template <typename Value>
  Flag add_option(const std::string& names, Value& value, const std::string& help = {});
  /// Words with commas between them, in one value or several; none of them is empty.
  Flag add_words(const std::string& names, std::vector<std::string>& words, const std::string& help);
  Flag add_flag(const std::string& names, bool& value, const std::string& help);
  /// The end of the help.
  void footer(const std::string& text);
  /// True once it was named among the arguments.
  [[nodiscard]] bool parsed() const;

 private:
  CLI::App* app_;
};

}  // namespace penstock
