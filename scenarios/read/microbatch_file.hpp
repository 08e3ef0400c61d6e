#pragma once
// Figures that differ from microbatch to microbatch are many, so they may stand in a file of their own:
//
//   forward: {file: times.csv, unit: ms}
//
// Used by load.hpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"

namespace penstock {

/// The document with every `{file: F.csv}` among the keys of model.stages replaced by what the file holds: a
/// row a stage and a cell a microbatch, or with `rows: microbatches` the other way round; one stage alone
/// stands for all. Cells are figures with their unit; `unit` is that of cells without one. What the file
/// gives has its place in the file. Errors: a file that cannot be read or has no cell, rows of unequal
/// length, an unknown key.
tl::expected<Node, std::string> with_microbatch_files(Node document);

}  // namespace penstock
