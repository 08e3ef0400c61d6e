#pragma once
// Reads figures that differ between microbatches from a separate file, because there may be many:
//
//   forward: {file: times.csv, unit: ms}
//
// Used by load.hpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"

namespace penstock {

/// Returns the document with every `{file: F.csv}` among the keys of model.stages replaced by the file's
/// content. A row is a stage and a cell a microbatch, or the reverse with `rows: microbatches`. A file with
/// one stage applies to all stages. Cells are figures with their unit, and `unit` applies to cells without
/// one. Values from a file have their place in that file. Errors: a file that cannot be read or has no cell,
/// rows of unequal length, an unknown key.
tl::expected<Node, std::string> with_microbatch_files(Node document);

}  // namespace penstock
