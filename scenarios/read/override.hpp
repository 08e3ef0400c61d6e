#pragma once
// Applies edits such as `--set cluster.latency=4us` to a scenario's document before it is read. Used by
// load.hpp.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"

namespace penstock {

/// One edit. Keys are joined by dots. An element of a list is named by its index from 0
/// ("model.stages.forward.2"). The value is YAML ("4us", "[1 ms, 2 ms]", "{preset: uniform}").
struct Override {
  std::string key;
  std::string value;
  /// The name of the edit in messages. If it is empty, they use "--set KEY".
  std::string flag{};

  friend bool operator==(const Override&, const Override&) = default;
};

/// Reads "KEY=VALUE" from a flag. Errors: no '=', an empty key.
tl::expected<Override, std::string> parse_override(std::string_view text);

/// Returns the document with the value set. Missing mappings on the path are added, so that an unknown key is
/// reported when the document is read. Errors: a value that is not YAML, a path through a scalar, an index
/// that is not a number or is outside its list.
tl::expected<Node, std::string> apply_override(Node document, const Override& change);

}  // namespace penstock
