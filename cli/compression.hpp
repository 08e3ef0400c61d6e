#pragma once
// Compresses output files (.gz).

#include "report/print/text_sink.hpp"

namespace penstock {

/// Returns the text as the bytes of a gzip file. The file has no name and no time, so equal texts give equal
/// bytes with one version of zlib. The pieces are not whole lines.
TextInPieces compressed(TextInPieces text);

}  // namespace penstock
