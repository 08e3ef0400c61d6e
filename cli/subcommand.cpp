// Wraps CLI11's flags and subcommands in handles that contain one pointer. Each function is one call of
// CLI11. The list at the end has the types of variables to which a flag can be bound. number_of_text() parses
// all numbers as decimal numbers. CLI11 itself would accept 0x2, read 010 as 8, treat an empty text as no
// value, and accept nan in every range.

#include "cli/subcommand.hpp"
#include "text/numbers.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <boost/algorithm/string/split.hpp>

namespace penstock {
namespace {

template <typename Value>
struct NumberOf {
  using Type = Value;
};
template <typename Value>
struct NumberOf<std::optional<Value>> {
  using Type = Value;
};

template <typename Number>
constexpr const char* kNoun = std::is_integral_v<Number> ? "a whole number" : "a number";

/// Returns a value that the user typed, in quotes for an error message, or "nothing" if it is empty.
std::string typed(const std::string& text) { return text.empty() ? "nothing" : fmt::format("\"{}\"", text); }

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> words;
  boost::algorithm::split(words, text, [](char c) { return c == ','; });
  return words;
}

}  // namespace

Flag& Flag::group(const std::string& heading) {
  option_->group(heading);
  return *this;
}

Flag& Flag::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Flag& Flag::required() {
  option_->required();
  return *this;
}

// Without this setting, a flag bound to a vector takes all arguments up to the next flag.
Flag& Flag::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag& Flag::check(const std::function<std::string(const std::string&)>& fault) {
  option_->check(CLI::Validator([fault](const std::string& text) { return fault(text); }, ""));
  return *this;
}

// CLI11 cannot store the words of a flag. Therefore the name of a check that accepts every value contains
// them. Help texts do not show names of checks.
Flag& Flag::words(const std::vector<std::string_view>& words) {
  const auto accept = [](const std::string&) { return std::string(); };
  option_->check(CLI::Validator(accept, "", fmt::format("{}{}", kWordsPrefix, fmt::join(words, " "))));
  return *this;
}

Flag& Flag::replaces(const std::string& from, const std::string& to) {
  option_->transform(CLI::Validator(
      [from, to](std::string& text) {
        if (text == from) text = to;
        return std::string();
      },
      ""));
  return *this;
}

template <typename Number>
Flag& Flag::range(Number least, Number most) {
  // Comparisons with nan are false, so nan is refused.
  return check([least, most](const std::string& text) {
    const auto value = number_of_text<Number>(text);
    if (value && *value >= least && *value <= most) return std::string();
    return fmt::format("expected {} from {} to {}, got {}", kNoun<Number>, least, most, typed(text));
  });
}

Subcommand::Subcommand(CLI::App& root, const std::string& name, const std::string& description)
    : app_(root.add_subcommand(name, description)) {}

template <typename Value>
Flag Subcommand::add_option(const std::string& names, Value& value, const std::string& help) {
  using Number = typename NumberOf<Value>::Type;
  if constexpr (std::is_arithmetic_v<Number>) {
    // CLI11 calls this function only after the checks, such as range(), have accepted the text.
    const auto take = [&value, names](const CLI::results_t& texts) {
      const auto number = number_of_text<Number>(texts.front());
      if (!number) {
        throw CLI::ValidationError(names,
                                   fmt::format("expected {}, got {}", kNoun<Number>, typed(texts.front())));
      }
      if constexpr (std::is_same_v<Value, Number>) {
        value = *number;
      } else {
        value = number;
      }
      return true;
    };
    return Flag(*app_->add_option(names, take, help));
  } else {
    return Flag(*app_->add_option(names, value, help));
  }
}

Flag Subcommand::add_words(const std::string& names, std::vector<std::string>& words,
                           const std::string& help) {
  const auto take = [&words](const CLI::results_t& texts) {
    words.clear();
    for (const std::string& text : texts) {
      for (std::string& word : split_at_commas(text)) words.push_back(std::move(word));
    }
    return true;
  };
  CLI::Option& option = *app_->add_option(names, take, help);
  option.expected(CLI::detail::expected_max_vector_size);
  return Flag(option).one_value_each().check([](const std::string& text) {
    const std::vector<std::string> parts = split_at_commas(text);
    const bool complete = std::ranges::none_of(parts, &std::string::empty);
    return complete ? std::string()
                    : fmt::format("expected words with a comma between each two, got {}", typed(text));
  });
}

Flag Subcommand::add_flag(const std::string& names, bool& value, const std::string& help) {
  return Flag(*app_->add_flag(names, value, help));
}

Flag Subcommand::add_flag(const std::string& names, std::string& value, const std::string& help) {
  return Flag(*app_->add_flag(names, value, help));
}

void Subcommand::footer(const std::string& text) { app_->footer(text); }

bool Subcommand::parsed() const { return app_->parsed(); }

template Flag& Flag::range(int, int);
template Flag& Flag::range(std::int64_t, std::int64_t);
template Flag& Flag::range(double, double);

template Flag Subcommand::add_option(const std::string&, std::string&, const std::string&);
template Flag Subcommand::add_option(const std::string&, std::int32_t&, const std::string&);
template Flag Subcommand::add_option(const std::string&, std::int64_t&, const std::string&);
template Flag Subcommand::add_option(const std::string&, std::uint64_t&, const std::string&);
template Flag Subcommand::add_option(const std::string&, double&, const std::string&);
template Flag Subcommand::add_option(const std::string&, std::optional<std::int32_t>&, const std::string&);
template Flag Subcommand::add_option(const std::string&, std::optional<std::int64_t>&, const std::string&);
template Flag Subcommand::add_option(const std::string&, std::optional<std::uint64_t>&, const std::string&);
template Flag Subcommand::add_option(const std::string&, std::optional<double>&, const std::string&);
template Flag Subcommand::add_option(const std::string&, std::vector<std::string>&, const std::string&);

}  // namespace penstock
