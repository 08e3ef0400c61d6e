// A handle a flag, a handle a subcommand, each one pointer wide: every function is one call of CLI11. The
// list of types at the end is what flags may be bound to. Where CLI11 reads a number otherwise than people
// write it (010 is 8, nan is in every range), it is set right here, for all flags.

#include "cli/subcommand.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace penstock {
namespace {

template <typename Value>
constexpr bool kIsWhole = std::is_integral_v<Value>;
template <typename Value>
constexpr bool kIsWhole<std::optional<Value>> = std::is_integral_v<Value>;

/// "010" as "10" and "-010" as "-10", since CLI11 takes a leading zero for octal as strtoll(text, end, 0)
/// does. What is no decimal number stays as it is, for the checks to refuse.
std::string without_leading_zeros(const std::string& text) {
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::size_t first = text.find_first_not_of('0', sign);
  const bool is_decimal =
      text.size() > sign && text.find_first_not_of("0123456789", sign) == std::string::npos;
  if (!is_decimal) return text;
  return text.substr(0, sign) + (first == std::string::npos ? "0" : text.substr(first));
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

// Without it a flag of a vector takes all arguments behind it up to the next flag.
Flag& Flag::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

Flag& Flag::delimiter(char separator) {
  option_->delimiter(separator);
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

template <typename Number>
Flag& Flag::range(Number least, Number most) {
  if constexpr (std::is_floating_point_v<Number>) {
    // CLI11 lets nan through any range.
    return check([least, most](const std::string& text) {
      double value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      const bool is_number = error == std::errc() && end == text.data() + text.size();
      if (is_number && value >= least && value <= most) return std::string();
      return fmt::format("expected a number from {} to {}, got \"{}\"", least, most, text);
    });
  }
  option_->check(CLI::Range(least, most).description(""));  // the help names the type alone
  return *this;
}

Subcommand::Subcommand(CLI::App& root, const std::string& name, const std::string& description)
    : app_(root.add_subcommand(name, description)) {}

template <typename Value>
Flag Subcommand::add_option(const std::string& names, Value& value, const std::string& help) {
  CLI::Option& option = *app_->add_option(names, value, help);
  if constexpr (kIsWhole<Value>) option.transform(without_leading_zeros);  // before all checks
  return Flag(option);
}

Flag Subcommand::add_flag(const std::string& names, bool& value, const std::string& help) {
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
