#pragma once
// Reads the files of a recorded run, which may be compressed by gzip.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace penstock {

/// The largest size of a recorded file in bytes. It holds both before and after decompression.
inline constexpr std::size_t kLargestTrace = std::size_t{1} << 30U;

/// The largest size of a file that is parsed as a whole, such as a dump.
inline constexpr std::size_t kLargestDump = std::size_t{1} << 27U;

/// Returns the content of a file, decompressed if it is a gzip file. The message of an error begins with
/// `name`. Errors: the file cannot be read, is too large, or is a damaged gzip file.
tl::expected<std::string, std::string> read_trace_file(const std::filesystem::path& path,
                                                       std::string_view name);

}  // namespace penstock
