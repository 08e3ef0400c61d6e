// Stores each finished point of a sweep as one line (report/result/sweep_progress.cpp), so that a crash loses
// at most one point.
//
// The file is locked (flock) before it is read. The lock lasts until this process ends, for any reason. So
// two sweeps cannot write to the same file, and no lock remains after its process. The file is never
// replaced, because a lock belongs to the file and not to its name. A crash can leave an incomplete last
// line, which is cut off.

#include "cli/sweep_progress_file.hpp"

#include <fcntl.h>
#include <stdio.h>  // for fileno and fdopen, which <cstdio> need not declare
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ios>
#include <istream>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/executable.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/load_architecture.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/text/program_text.hpp"
#include "sim/engines/engines.hpp"
#include "sim/sweep/sweep.hpp"

namespace penstock {

namespace {

constexpr std::string_view kHeld = "another sweep adds to it: wait for its end, or name another file";

std::string reason_of(int error) { return std::generic_category().message(error); }

std::string cannot_write(const std::string& name, int error) {
  return fmt::format("{}: cannot be written: {}", name, reason_of(error));
}

/// Returns true if `name` still refers to the open file. Returns false if another process has removed or
/// replaced the file.
bool is_still(int descriptor, const std::string& name) {
  struct stat open_file{};
  struct stat named{};
  return ::fstat(descriptor, &open_file) == 0 && ::stat(name.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/// Returns true if the file's mode gives no user write permission. Root could write to such a file, but the
/// sweep refuses it for root, too.
bool is_read_only(int descriptor) {
  struct stat file{};
  return ::fstat(descriptor, &file) == 0 && (file.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0;
}

/// Opens a file for reading and appending, and locks it. If the file does not exist, it is created. Returns
/// an error if another process holds the lock or the file cannot be written.
tl::expected<std::FILE*, std::string> locked_file(const std::string& name) {
  constexpr mode_t kMode = 0666;
  while (true) {
    const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kMode);
    if (descriptor < 0) return tl::unexpected(cannot_write(name, errno));
    if (is_read_only(descriptor)) {
      ::close(descriptor);
      return tl::unexpected(name + ": cannot be written: it is read-only; make it writable or name another");
    }
    // If the file system does not support locks, the file is used without a lock.
    const bool is_held = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!is_held && is_still(descriptor, name)) return ::fdopen(descriptor, "a");
    ::close(descriptor);
    if (is_held) return tl::unexpected(fmt::format("{}: {}", name, kHeld));
  }
}

/// Returns the length in bytes of the file up to the end of its last complete line. The search goes
/// backwards from the end of the file.
std::size_t whole_lines(int descriptor) {
  struct stat file{};
  std::size_t end = ::fstat(descriptor, &file) == 0 ? static_cast<std::size_t>(file.st_size) : 0;
  std::string block;
  while (end > 0) {
    constexpr std::size_t kBlock = 65'536;
    const std::size_t begin = end > kBlock ? end - kBlock : 0;
    block.resize(end - begin);
    const auto got = ::pread(descriptor, block.data(), block.size(), static_cast<off_t>(begin));
    block.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const std::size_t last = block.rfind('\n');
    if (last != std::string::npos) return begin + last + 1;
    end = begin;
  }
  return 0;
}

/// Returns true if the first line of a progress file is incomplete. In this case the file has no points,
/// because it is new or because the run crashed early.
bool is_not_begun(std::istream& file, const std::string& head) {
  std::string beginning(head.size(), '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(file.gcount()));
  return beginning != head && head.starts_with(beginning);
}

}  // namespace

tl::expected<std::unique_ptr<SweepProgressFile>, std::string> SweepProgressFile::open(
    const std::string& name, const SweepHead& sweep) {
  std::error_code ignored;
  // Devices and pipes are refused, because reading them may never end.
  if (std::filesystem::exists(name, ignored) && !std::filesystem::is_regular_file(name, ignored))
    return tl::unexpected(fmt::format("{}: cannot be read: expected a file", name));
  const auto file = locked_file(name);
  if (!file) return tl::unexpected(file.error());
  std::unique_ptr<SweepProgressFile> progress(new SweepProgressFile(name));
  progress->file_.reset(*file);
  std::ifstream stream(name);
  if (!stream) return tl::unexpected(fmt::format("{}: cannot be read", name));
  const std::string head = sweep_progress_head(sweep);
  if (is_not_begun(stream, head)) {
    if (auto begun = progress->begin_with(head); !begun) return tl::unexpected(begun.error());
    return progress;
  }
  stream.clear();
  stream.seekg(0);
  auto part = read_sweep_part(stream, name, &sweep);
  if (!part) return tl::unexpected(part.error());
  progress->known_ = std::move(part->points);
  progress->known_bills_ = std::move(part->bills);
  if (::ftruncate(::fileno(*file), static_cast<off_t>(whole_lines(::fileno(*file)))) != 0)
    return tl::unexpected(cannot_write(name, errno));
  return progress;
}

tl::expected<void, std::string> SweepProgressFile::begin_with(const std::string& head) {
  const bool is_written = ::ftruncate(::fileno(file_.get()), 0) == 0 &&
                          std::fwrite(head.data(), 1, head.size(), file_.get()) == head.size() &&
                          std::fflush(file_.get()) == 0;
  if (!is_written) return tl::unexpected(cannot_write(name_, errno));
  return {};
}

void SweepProgressFile::add_line(const std::string& line) {
  // A reader would refuse such a long line, so the point is not stored. A later run computes it again.
  if (line.size() > kLongestProgressLine) return;
  const std::lock_guard lock(mutex_);
  // Each line is flushed, so that a crash of this process loses no finished point.
  const bool written =
      std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() && std::fflush(file_.get()) == 0;
  if (!written && error_ == 0) error_ = errno;
}

tl::expected<void, std::string> SweepProgressFile::state() const {
  if (error_ == 0) return {};
  return tl::unexpected(cannot_write(name_, error_));
}

// The digest is a hash of this text:
//
//   commit | scenario, with hashes of files instead of their names | flags of the shape | channels |
//   batch | grid
//
// The text of the scenario is read from its files, a second time. A loaded Scenario cannot be converted to
// text, because the kernel tables of a device cannot be written.

namespace {

using Json = nlohmann::ordered_json;
using Text = tl::expected<std::string, std::string>;

/// Returns the SHA-256 of a text in hexadecimal digits.
std::string hash_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  std::size_t size = 0;
  if (EVP_Q_digest(nullptr, "SHA256", nullptr, text.data(), text.size(), bytes.data(), &size) != 1)
    throw std::runtime_error("OpenSSL has no SHA-256");
  return fmt::format("{:02x}", fmt::join(std::span(bytes).first(size), ""));
}

/// The keys of a scenario for which edited_scenario() returns the name of a file. The contents of these
/// files belong to the digest of a sweep.
const std::vector<std::vector<std::string_view>> kFiles = {{"model", "huggingface"},
                                                           {"model", "profile"},
                                                           {"model", "fitted"},
                                                           {"cluster", "machine"},
                                                           {"cluster", "kernels", "gemm"},
                                                           {"cluster", "kernels", "attention"},
                                                           {"cluster", "kernels", "collectives"},
                                                           {"cluster", "kernels", "products"}};

/// Returns the node of the document at this path of keys, or a null pointer if there is none.
Node* value_at(Node& document, const std::vector<std::string_view>& keys) {
  Node* node = &document;
  for (const std::string_view key : keys) {
    if (node != nullptr) node = node->kind == Node::Kind::mapping ? node->find(key) : nullptr;
  }
  return node;
}

/// Returns an error if the file is a pipe or a device. The sweep reads its files twice, and a second read
/// of such a file might wait forever.
tl::expected<void, std::string> check_read_again(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(file, ignored)) return {};
  return tl::unexpected(fmt::format(
      "{}: --resume and --shard read it twice: expected a file, got a pipe or a device; write it into a file",
      file));
}

/// Returns the text of the scenario, after all overrides, from which the digest of the sweep is computed. In
/// this text, hashes of the files' contents replace the names of the files.
Text scenario_text(const InputFlags& input) {
  const auto overrides = scenario_overrides(input);
  if (!overrides) return tl::unexpected(overrides.error().message);
  if (!input.file.empty()) {
    if (auto file = check_read_again(input.file); !file) return tl::unexpected(file.error());
  }
  Text text = edited_scenario(input.file, *overrides);
  if (!text) return text;
  auto document = parse_document(
      *text, std::make_shared<const Source>(Source{.name = input.file, .directory = "", .override_key = ""}));
  if (!document) return tl::unexpected(document.error());
  for (const auto& keys : kFiles) {
    Node* const name = value_at(*document, keys);
    if (name == nullptr || name->kind != Node::Kind::scalar) continue;
    if (!is_library_config(name->text, name->text)) {
      if (auto file = check_read_again(name->text); !file) return tl::unexpected(file.error());
    }
    Text held = read_config_text(name->text, name->text);
    if (!held) return held;
    name->text = hash_of(*held);
  }
  return document_to_yaml(*document);
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// If a field were missing here, two different sweeps could have the same digest. Therefore each function
// names all fields of its struct. If a field is added to the struct, compilation fails.

/// Returns the flags that the scenario's text does not contain. The scenario file, --set, --vary and the
/// model's flags are in that text.
Json flags_json(const InputFlags& flags) {
  const auto& [file, settings, varied, schedule, pp_size, num_microbatches, virtual_stages, group_size,
               slices, data_parallel, buckets, sharding, gather, passes, seed, budget_seconds, forward_only,
               offload, dialect, micro_batch_size, global_batch_size, iterations, unit, model] = flags;
  return {schedule,
          or_null(pp_size),
          or_null(num_microbatches),
          or_null(virtual_stages),
          or_null(group_size),
          or_null(slices),
          or_null(data_parallel),
          or_null(buckets),
          or_null(sharding),
          gather,
          or_null(passes),
          or_null(seed),
          or_null(budget_seconds),
          forward_only,
          offload,
          dialect,
          or_null(micro_batch_size),
          or_null(global_batch_size),
          or_null(iterations),
          unit};
}

Json channels_json(const ChannelOptions& channels) {
  const auto& [model, blocking, capacity, eager_bytes, launch_order] = channels;
  return {to_text(model), to_text(blocking), capacity, eager_bytes, launch_order};
}

Json batch_json(const Batch& batch) {
  const auto& [own_micro_batch_size, micro_batch_size, global_batch_size, microbatches] = batch;
  return {own_micro_batch_size, or_null(micro_batch_size), or_null(global_batch_size), or_null(microbatches)};
}

/// Returns the fields of the grid that determine the points of the sweep. Known points and the shard are
/// left out, because they do not change any point.
Json grid_json(const SweepGrid& grid) {
  const auto& [variants, schedules, programs, stages, virtual_stages, microbatches, batch, engine, known,
               shard, progress, finished, stopped] = grid;
  Json varied = Json::array();
  for (const auto& [values, scenario, held, refusal] : variants) {
    // The costs in the file hold for the microbatch size that the file states (`held`). --set may give
    // another size, so the digest contains both sizes.
    varied.push_back({values, batch_json(scenario.batch), batch_json(held), refusal});
  }
  Json files = Json::object();
  for (const auto& [name, program] : programs) files[name] = hash_of(to_text(program));
  return {varied, schedules, files, stages, virtual_stages, microbatches, batch_json(batch), to_text(engine)};
}

}  // namespace

tl::expected<std::string, UserError> sweep_digest(const std::vector<InputFlags>& inputs,
                                                  const Scenario& scenario, const SweepGrid& grid) {
  Json texts = Json::array();
  for (const InputFlags& input : inputs) {
    const Text text = scenario_text(input);
    if (!text) return bad_input(text.error());
    texts.push_back(*text);
  }
  const Json all = {built_commit(),
                    texts,
                    flags_json(inputs.front()),
                    channels_json(scenario.channels),
                    batch_json(scenario.batch),
                    grid_json(grid)};
  return hash_of(all.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace penstock
