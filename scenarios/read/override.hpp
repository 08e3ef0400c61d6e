#pragma once
// `--set cluster.latency=4us`: edits of a scenario's document before it is read. Used by load.hpp.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"

namespace penstock {

/// One edit. Keys are joined by dots; a list's elements are named by their index from 0
/// ("model.stages.forward.2"). The value is YAML ("4us", "[1 ms, 2 ms]", "{preset: uniform}").
struct Override {
  std::string key;
  std::string value;
  std::string flag{};  ///< what messages call it; empty: "--set KEY"

  friend bool operator==(const Override&, const Override&) = default;
};

/// "KEY=VALUE" as the flag takes it. Errors: no '=', an empty key.
tl::expected<Override, std::string> parse_override(std::string_view text);

/// The document with the value in place; mappings that the key passes through are made where they are
/// missing, so that an unknown key is found when the document is read. Errors: a value that is no YAML, a
/// path through a scalar, an index that is no number or outside its list.
tl::expected<Node, std::string> apply_override(Node document, const Override& change);

}  // namespace penstock
