#pragma once
// Reads TOML. Only toml.cpp includes the library toml++, because its header is slow to compile.

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "scenarios/import/settings.hpp"

namespace penstock {

/// Adds all keys of a TOML document to `settings`. The keys of tables are joined by points, and the items
/// of a list by blanks. Returns a syntax error in the form "LINE:COLUMN: text".
tl::expected<void, std::string> add_toml(Settings& settings, std::string_view text);

}  // namespace penstock
