#pragma once
// Files that appear whole or not at all. Used by output.hpp, which words what went wrong.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "report/print/text_sink.hpp"

namespace penstock {

/// What stands beside a file until it takes its place. Only tests ask for a name where none is needed.
enum class NewFile : std::uint8_t { nameless_where_known, named };

/// 0 when all of it was written to an open file, otherwise the error (errno).
int error_of_writing(int descriptor, std::string_view content);
/// The same of a text that is made while it is written, as far as that goes.
int error_of_writing(int descriptor, const TextInPieces& content);

/// True when writing the one would change the other: the same regular file by whatever names, links among
/// them, or the same place where neither is there yet. Never of devices and pipes, which many may write to.
bool is_same_file(const std::filesystem::path& one, const std::filesystem::path& other);

/// True when what is printed goes into that regular file.
bool is_standard_output(const std::filesystem::path& file);

/// Why the file could not be replaced or made; empty where it can.
std::string unwritable(const std::filesystem::path& file, NewFile kind = NewFile::nameless_where_known);

/// Writes to a file beside `file` that then takes its place; mode, owner and links stay. A signal that ends
/// the run meanwhile leaves no temporary name, nor does an exception of `content`; nor does SIGKILL where the
/// file system has files without names (O_TMPFILE). Empty, or why it could not be written.
std::string problem_of_writing(const std::filesystem::path& file, const TextInPieces& content,
                               NewFile kind = NewFile::nameless_where_known);

}  // namespace penstock
