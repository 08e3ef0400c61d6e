#include "sim/autopsy/trace_formats.hpp"

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <zconf.h>
#include <zlib.h>
#include <tl/expected.hpp>

#include "scenarios/read/document.hpp"

namespace penstock {
namespace {

constexpr std::string_view kGzip = "\x1f\x8b";

/// Returns the content of a gzip file, which may consist of several members.
tl::expected<std::string, std::string> inflated(std::string& packed) {
  z_stream stream{};
  // If 32 is added to the number of window bits (15), zlib finds the format from the header.
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return tl::unexpected(std::string("zlib cannot start"));
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  std::array<char, 1U << 16U> block{};
  int status = Z_OK;
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) break;
    text.append(block.data(), block.size() - stream.avail_out);
    if (text.size() > kLargestTrace) break;
    if (status != Z_STREAM_END) continue;
    // Another member may follow, for example if several gzip files were joined to one.
    if (stream.avail_in < kGzip.size() || inflateReset(&stream) != Z_OK) break;
  }
  inflateEnd(&stream);
  if (text.size() > kLargestTrace)
    return tl::unexpected(std::string("the file is larger than 1 GiB when it is decompressed"));
  if (status != Z_STREAM_END) return tl::unexpected(std::string("the file is a damaged or cut gzip file"));
  return text;
}

/// Returns the rest of a stream, decompressed if it is a gzip file.
tl::expected<std::string, std::string> rest_of_stream(std::istream& stream, std::string_view name) {
  const auto failed = [&](std::string_view why) { return tl::unexpected(fmt::format("{}: {}", name, why)); };
  std::string text;
  std::array<char, 1U << 16U> block{};
  while (stream.read(block.data(), block.size()) || stream.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kLargestTrace) return failed("the file is larger than 1 GiB");
  }
  if (stream.bad()) return failed("the file cannot be read");
  if (!text.starts_with(kGzip)) return text;
  auto unpacked = inflated(text);
  if (!unpacked) return failed(unpacked.error());
  return *std::move(unpacked);
}

}  // namespace

tl::expected<std::string, std::string> read_trace_file(const std::filesystem::path& path,
                                                       std::string_view name) {
  const auto failed = [&](std::string_view why) { return tl::unexpected(fmt::format("{}: {}", name, why)); };
  if (path == kStandardInput) return rest_of_stream(std::cin, name);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return failed("the file does not exist");
  if (error) return failed(fmt::format("the file cannot be read: {}", error.message()));
  if (std::filesystem::is_directory(status)) return failed("expected a file, got a directory");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return failed("the file cannot be read: check its permissions");
  return rest_of_stream(stream, name);
}

}  // namespace penstock
