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
/// returns true if both would be created at the same place. Returns false for devices and pipes, because
/// several writers may share them.
bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other);

/// Returns true if standard output is redirected into this regular file.
bool is_standard_output(const std::filesystem::path& file);

/// Returns the reason why the file cannot be created or replaced, or an empty text if it can.
std::string unwritable(const std::filesystem::path& file);

/// Writes a text to a temporary file beside `file`, flushes it, and renames it to `file`. Links and the
/// file's mode are preserved. Devices and pipes are written directly. If `content` throws or a signal ends
/// the run, the temporary file is removed. Returns the reason of a failure, or an empty text.
std::string problem_of_writing(const std::filesystem::path& file, const TextInPieces& content);

/// Returns the text as the bytes of a gzip file. The file has no name and no time, so equal texts give equal
/// bytes with one version of zlib. The pieces are not whole lines.
TextInPieces compressed(TextInPieces text);

}  // namespace penstock
