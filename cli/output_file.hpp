#pragma once
// Writes files completely or not at all, and compresses texts (.gz). output.hpp uses both and writes the
// error messages.

#include <filesystem>
#include <string>
#include <string_view>

#include "report/print/text_sink.hpp"

namespace penstock {

/// Writes the whole text to an open file. Returns 0, or the error (errno).
int error_of_writing(int descriptor, std::string_view content);
/// Writes a text that is generated in pieces to an open file, and stops at the first error. Returns 0, or the
/// error (errno).
int error_of_writing(int descriptor, const TextInPieces& content);

/// Returns true if both names refer to the same regular file, also through links. If neither file exists,
/// returns true if both names would create the same file. Returns false for devices and pipes, because
/// several writers may share them.
bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other);

/// Returns true if standard output is redirected into this regular file.
bool is_standard_output(const std::filesystem::path& file);

/// Returns the reason why the file cannot be created or replaced, or an empty text if it can.
std::string unwritable(const std::filesystem::path& file);

/// Writes a text to a temporary file beside `file`, flushes it, and renames it to `file`. Links and the
/// mode of the file are preserved. Devices and pipes are written directly. If `content` throws or a signal
/// ends the run, the temporary file is removed. Returns the reason of a failure, or an empty text if there
/// is none.
std::string problem_of_writing(const std::filesystem::path& file, const TextInPieces& content);

/// Returns the text compressed as a gzip file, in pieces that are not whole lines. The file contains no
/// name and no time. Equal texts therefore give equal bytes with the same version of zlib.
TextInPieces compressed(TextInPieces text);

}  // namespace penstock
