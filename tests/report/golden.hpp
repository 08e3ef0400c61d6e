#pragma once
// Golden files of the tests of report/, in tests/report/golden.

#include <string>
#include <string_view>

namespace penstock::sample {

/// The content of the golden file `name`; a sentence when it cannot be read. With the environment variable
/// PENSTOCK_UPDATE_GOLDENS=1 the file is written from `actual` first.
std::string golden(std::string_view name, std::string_view actual);

}  // namespace penstock::sample
