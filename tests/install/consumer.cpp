// Runs the example of each stable header and compares its output with the comments of the example. Exits with
// 1 if an example prints something else, or if it fails.

#include <penstock/penstock.hpp>

#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace {

std::ostringstream printed;

/// Returns the text without the blanks and line ends at its end.
std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

/// Throws an exception unless the example has printed this line since the last call.
void expect(const std::string& line) {
  const std::string found = trimmed(printed.str());
  printed.str("");
  if (found != trimmed(line)) throw std::runtime_error("expected \"" + line + "\", got \"" + found + "\"");
}

#include "examples.hpp"

}  // namespace

int main() {
  std::streambuf* const terminal = std::cout.rdbuf(printed.rdbuf());
  int failures = 0;
  for (const auto& [name, example] : kExamples) {
    try {
      example();
    } catch (const std::exception& error) {
      std::cerr << "the example of penstock/" << name << ".hpp: " << error.what() << '\n';
      ++failures;
    }
  }
  std::cout.rdbuf(terminal);
  std::cout << std::size(kExamples) << " examples, " << failures << " failed\n";
  return failures == 0 ? 0 : 1;
}
