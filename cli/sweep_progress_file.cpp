// JSON lines, so that a crash costs one line:
//
//   {"schema_version":1,"kind":"sweep-progress","points":1000}
//   {"point":3,"row":{...},"counts_activations":false,"notes":[]}
//
// The whole file is read and written anew without what a crash left behind its last whole line; from then on
// it only grows.

#include "cli/sweep_progress_file.hpp"

#include <stdio.h>  // NOLINT(modernize-deprecated-headers): fileno() is POSIX's
#include <sys/file.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::string first_line(std::size_t points) {
  return Json{{"schema_version", 1}, {"kind", "sweep-progress"}, {"points", points}}.dump() + '\n';
}

/// Why a file that begins with `line` is not that of a sweep of so many points; empty: it is.
std::string fault_of_first_line(std::string_view line, std::size_t points) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || object.value("kind", "") != "sweep-progress")
    return "expected the progress of a sweep, as --resume writes it; name another file";
  if (object.value("points", std::size_t{0}) != points) {
    return fmt::format("it is of a sweep of {} points, this one has {}; name another file",
                       object.value("points", std::size_t{0}), points);
  }
  return "";
}

constexpr std::string_view kHeld = "another sweep adds to it: wait for its end, or name another file";

/// Who opens the file writes it anew: what the other one adds from then on would be nowhere.
bool is_held(const std::string& name) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "r"), &std::fclose);
  return file && ::flock(::fileno(file.get()), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace

tl::expected<void, std::string> SweepProgressFile::read(std::istream& stream, std::size_t points) {
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    const bool is_whole = !stream.eof();  // the last one of a crash has no end
    if (number == 1) {
      const std::string fault = fault_of_first_line(line, points);
      if (!fault.empty()) return tl::unexpected(fmt::format("{}: {}", name_, fault));
    } else if (is_whole) {
      auto point = sweep_point_of_json(line);
      if (!point) return tl::unexpected(fmt::format("{}:{}: {}", name_, number, point.error()));
      known_.insert_or_assign(point->first, std::move(point->second));
    }
  }
  if (stream.bad()) return tl::unexpected(fmt::format("{}: cannot be read", name_));
  return {};
}

tl::expected<std::unique_ptr<SweepProgressFile>, std::string> SweepProgressFile::open(const std::string& name,
                                                                                      std::size_t points) {
  std::unique_ptr<SweepProgressFile> progress(new SweepProgressFile(name));
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored)) {
    // A device or a pipe may have no end.
    if (!std::filesystem::is_regular_file(name, ignored))
      return tl::unexpected(fmt::format("{}: cannot be read: expected a file", name));
    if (is_held(name)) return tl::unexpected(fmt::format("{}: {}", name, kHeld));
    std::ifstream stream(name);
    if (!stream) return tl::unexpected(fmt::format("{}: cannot be read", name));
    if (auto read = progress->read(stream, points); !read) return tl::unexpected(read.error());
  }
  std::string whole = first_line(points);
  for (const auto& [number, point] : progress->known_) whole += sweep_point_json(number, point);
  if (auto written = write_file(name, whole); !written) return tl::unexpected(written.error().message);
  progress->file_.reset(std::fopen(name.c_str(), "a"));
  if (!progress->file_)
    return tl::unexpected(fmt::format("{}: cannot be written: {}", name, reason_of(errno)));
  if (::flock(::fileno(progress->file_.get()), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return tl::unexpected(fmt::format("{}: {}", name, kHeld));
  return progress;
}

void SweepProgressFile::add(std::size_t number, const SweepPoint& point) {
  const std::string line = sweep_point_json(number, point);
  const std::lock_guard lock(mutex_);
  const bool written =
      std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() && std::fflush(file_.get()) == 0;
  if (!written && error_ == 0) error_ = errno;
}

tl::expected<void, std::string> SweepProgressFile::state() const {
  if (error_ == 0) return {};
  return tl::unexpected(fmt::format("{}: cannot be written: {}", name_, reason_of(error_)));
}

}  // namespace penstock
