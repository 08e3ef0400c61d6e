#pragma once
// Files that appear whole or not at all. Used by output.hpp, which words what went wrong.

#include <filesystem>
#include <string>
#include <string_view>

#include "report/print/text_sink.hpp"

namespace penstock {

/// Writes all of a text to an open file. Returns 0, or the error (errno).
int error_of_writing(int descriptor, std::string_view content);
/// Does the same with a text that is made while it is written, up to the first error.
int error_of_writing(int descriptor, const TextInPieces& content);

/// Returns true when writing the one would change the other: the same regular file by whatever names, links
/// among them, or the same place where neither is there yet. Returns false for devices and pipes, to which
/// many may write.
bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other);

/// Returns true when standard output goes into that regular file.
bool is_standard_output(const std::filesystem::path& file);

/// Returns why the file could not be replaced or made; empty where it can.
std::string unwritable(const std::filesystem::path& file);

/// Writes a text beside `file`, flushes it and renames it; a link stays a link, and the mode stays. Devices
/// and pipes are written in place. Neither a signal that ends the run nor an exception of `content` leaves
/// the temporary name. Returns why the file could not be written; empty where it was.
std::string problem_of_writing(const std::filesystem::path& file, const TextInPieces& content);

}  // namespace penstock
