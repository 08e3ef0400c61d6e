#include "scenarios/import/settings.hpp"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <tl/expected.hpp>

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// toml++ 3.3 assumes that a key follows each opening bracket, which is wrong for "[#". Without this
// assumption, its parser reports the error.
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expression) static_cast<void>(0)
#include <toml++/toml.h>

namespace penstock {

namespace {

std::string value_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  const auto* array = node.as_array();
  if (array == nullptr) return "a date";
  std::string text;
  for (const toml::node& item : *array) {
    if (!text.empty()) text += ' ';
    text += value_text(item);
  }
  return text;
}

void add_table(Settings& settings, const toml::table& table, const std::string& prefix) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const auto* inner = node.as_table()) {
      add_table(settings, *inner, name + ".");
    } else {
      settings.add(name, value_text(node));
    }
  }
}

}  // namespace

tl::expected<void, std::string> add_toml(Settings& settings, std::string_view text) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::source_position place = parsed.error().source().begin;
    return tl::unexpected(
        fmt::format("{}:{}: {}", place.line, place.column, std::string_view(parsed.error().description())));
  }
  add_table(settings, parsed.table(), "");
  return {};
}

}  // namespace penstock
