// A line a point (report/result/sweep_progress.cpp), so that a crash costs one.
//
// The whole file is read and written anew without what a crash left behind its last whole line; from then on
// it only grows.

#include "cli/sweep_progress_file.hpp"

#include <stdio.h>  // fileno, which <cstdio> need not have
#include <sys/file.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "report/result/sweep_progress.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {
namespace {

constexpr std::string_view kHeld = "another sweep adds to it: wait for its end, or name another file";

/// Whether another process has the file open to add to it (flock). Who opens the file writes it anew, under a
/// new name that is renamed over it: what the other one adds from then on would be nowhere.
bool is_held(const std::string& name) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "r"), &std::fclose);
  return file && ::flock(::fileno(file.get()), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace

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
    auto known = read_sweep_progress(stream, name, points);
    if (!known) return tl::unexpected(known.error());
    progress->known_ = *std::move(known);
  }
  std::string whole = sweep_progress_head(points);
  for (const auto& [number, point] : progress->known_) whole += sweep_point_json(number, point);
  if (auto written = write_file(name, whole); !written) return tl::unexpected(written.error().message);
  progress->file_.reset(std::fopen(name.c_str(), "a"));  // the new file; its lock goes with this process
  if (!progress->file_)
    return tl::unexpected(fmt::format("{}: cannot be written: {}", name, reason_of(errno)));
  if (::flock(::fileno(progress->file_.get()), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return tl::unexpected(fmt::format("{}: {}", name, kHeld));
  return progress;
}

void SweepProgressFile::add(std::size_t number, const SweepPoint& point) {
  const std::string line = sweep_point_json(number, point);
  const std::lock_guard lock(mutex_);
  // Flushed line by line: a crash of this process costs no point that was done.
  const bool written =
      std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() && std::fflush(file_.get()) == 0;
  if (!written && error_ == 0) error_ = errno;
}

tl::expected<void, std::string> SweepProgressFile::state() const {
  if (error_ == 0) return {};
  return tl::unexpected(fmt::format("{}: cannot be written: {}", name_, reason_of(error_)));
}

}  // namespace penstock
