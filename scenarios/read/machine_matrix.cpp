// Reads the matrix of `nvidia-smi topo -m`. A cell states the distance of two devices over PCIe, or the
// number of NVLinks between two GPUs. PCIe is converted to a tree, in which each inner node joins devices
// at a certain distance. Near devices are joined first:
//
//   PIX   one bridge           GPU0 GPU1 NIC0   GPU2 NIC1   GPU3
//   PXB   several bridges        \   |   /        |   /       |
//   PHB   a host bridge           pcie0           pcie1       |
//   NODE  one NUMA node              \              \________/ numa0
//   SYS   everything                  \______________________/ system
//
// The text is what users paste: it may have a prompt, colours of a terminal, blanks instead of tabs, and
// lines around the matrix. Tested by machine_test.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "scenarios/read/machine.hpp"
#include "schedules/ir/return_if_error.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 5> kDistances = {"PIX", "PXB", "PHB", "NODE", "SYS"};
constexpr std::size_t kFarthest = kDistances.size() - 1;
/// The bandwidth between the processors of a server if nothing about them is known. It is NCCL's figure for
/// AMD.
constexpr double kSocketBytesPerSecond = 16e9;

/// A cell in the matrix of `nvidia-smi topo -m`: a distance, a number of NVLinks, or neither if the cell is
/// on the diagonal.
struct MatrixCell {
  std::optional<std::size_t> distance;
  std::int32_t nvlinks = 0;

  friend bool operator==(const MatrixCell&, const MatrixCell&) = default;
};

std::string to_text(const MatrixCell& cell) {
  if (cell.nvlinks > 0) return fmt::format("NV{}", cell.nvlinks);
  return cell.distance ? std::string(kDistances.at(*cell.distance)) : "X";
}

/// The matrix and the names of its columns. `rows` has an entry for each column. The entry is empty if the
/// text has no row for this device. `lines` has the number of each row's line.
struct Matrix {
  std::vector<std::string> names;
  std::vector<std::vector<MatrixCell>> rows;
  std::vector<std::size_t> lines;
};

bool is_gpu(std::string_view name) { return name.starts_with("GPU"); }

std::optional<MatrixCell> cell_of(const std::string& word) {
  if (word == "X") return MatrixCell{};
  // Old drivers write SOC for what is now SYS.
  if (word == "SOC") return MatrixCell{.distance = kFarthest};
  if (const auto* const found = std::ranges::find(kDistances, word); found != kDistances.end())
    return MatrixCell{.distance = static_cast<std::size_t>(found - kDistances.begin())};
  if (!word.starts_with("NV")) return std::nullopt;
  const auto links = number_of_text<std::int32_t>(std::string_view(word).substr(2));
  return links && *links > 0 ? std::optional(MatrixCell{.distance = {}, .nvlinks = *links}) : std::nullopt;
}

tl::expected<std::vector<MatrixCell>, std::string> row_of(const std::vector<std::string>& words,
                                                          const Matrix& matrix, std::size_t line) {
  if (words.size() < matrix.names.size() + 1) {
    return tl::unexpected(fmt::format("{}: expected {} cells after {}, got {}", line, matrix.names.size(),
                                      words[0], words.size() - 1));
  }
  std::vector<MatrixCell> cells;
  for (std::size_t i = 0; i < matrix.names.size(); ++i) {
    const auto cell = cell_of(words[i + 1]);
    if (!cell) {
      return tl::unexpected(fmt::format("{}: {} and {}: expected X, {} or NV and a number, got \"{}\"", line,
                                        words[0], matrix.names[i], fmt::join(kDistances, ", "),
                                        shown_name(words[i + 1])));
    }
    cells.push_back(*cell);
  }
  return cells;
}

/// Returns an error if two devices have one connection in one's line and another in the other's line. A
/// connection has no direction, so one of the two cells is wrong.
tl::expected<void, std::string> check_symmetry(const Matrix& matrix) {
  for (std::size_t i = 0; i < matrix.rows.size(); ++i) {
    for (std::size_t j = i + 1; j < matrix.rows.size(); ++j) {
      if (matrix.rows[i].empty() || matrix.rows[j].empty()) continue;
      const MatrixCell& one = matrix.rows[i][j];
      const MatrixCell& other = matrix.rows[j][i];
      if (one == other) continue;
      return tl::unexpected(fmt::format(
          "{}: expected one connection of {} and {} in both their lines, got {} in that of {} (line "
          "{}) and {} in that of {} (line {}); correct one of the two cells",
          matrix.lines[j], matrix.names[i], matrix.names[j], to_text(one), matrix.names[i], matrix.lines[i],
          to_text(other), matrix.names[j], matrix.lines[j]));
    }
  }
  return {};
}

tl::expected<Matrix, std::string> matrix_of(std::string_view text) {
  Matrix matrix;
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string> words = matrix_words(text.substr(begin, end - begin));
    begin = end + 1;
    if (words.empty()) continue;
    if (matrix.names.empty()) {
      if (words.size() > 1 && words[0] == "GPU0" && words[1] != "X") {
        matrix.names = matrix_names(words);
      } else if (words[0] == "GPU0") {  // the header of a single GPU without a card
        matrix.names = {"GPU0"};
      }
      matrix.rows.resize(matrix.names.size());
      matrix.lines.resize(matrix.names.size());
      continue;
    }
    const auto found = std::ranges::find(matrix.names, words[0]);
    if (found == matrix.names.end()) continue;
    const auto number = static_cast<std::size_t>(found - matrix.names.begin());
    if (!matrix.rows[number].empty()) continue;
    auto cells = row_of(words, matrix, line + 1);
    if (!cells) return tl::unexpected(cells.error());
    matrix.rows[number] = *std::move(cells);
    matrix.lines[number] = line + 1;
  }
  for (std::size_t i = 0; i < matrix.names.size(); ++i) {
    if (is_gpu(matrix.names[i]) && matrix.rows[i].empty())
      return tl::unexpected(fmt::format("{}: expected a line of {}, got none", line, matrix.names[i]));
  }
  if (matrix.names.empty())
    return tl::unexpected(fmt::format("{}: expected a line that begins with GPU0, got none", line));
  PENSTOCK_RETURN_IF_ERROR(check_symmetry(matrix));
  return matrix;
}

/// Returns the distance between two devices over PCIe. NVLinks between them do not shorten it.
std::size_t distance_between(const Matrix& matrix, std::size_t a, std::size_t b) {
  for (const auto& [row, column] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!matrix.rows[row].empty() && matrix.rows[row][column].distance)
      return *matrix.rows[row][column].distance;
  }
  return kFarthest;
}

/// Connects the topmost nodes above a group of devices to a new node, which becomes their topmost node. Does
/// nothing if there is only one topmost node.
void join_tops(Machine& machine, const std::vector<std::size_t>& group, std::vector<std::int32_t>& tops,
               std::string name, double bytes_per_second) {
  std::vector<std::int32_t> below;
  for (const std::size_t device : group) {
    if (std::ranges::find(below, tops[device]) == below.end()) below.push_back(tops[device]);
  }
  if (below.size() < 2) return;
  const std::int32_t hub = machine.add({.name = std::move(name)});
  for (const std::int32_t node : below) machine.links.push_back({node, hub, bytes_per_second});
  for (const std::size_t device : group) tops[device] = hub;
}

/// Adds the inner nodes and the links of the PCIe tree. `tops` has the machine's node of each device.
void add_tree(Machine& machine, const Matrix& matrix, std::vector<std::int32_t> tops,
              const MachineAssumptions& assumed) {
  static constexpr std::array<std::string_view, 5> kInner = {"pcie", "pcie", "host", "numa", "system"};
  std::array<std::int32_t, kInner.size()> numbers{};
  for (std::size_t level = 0; level <= kFarthest; ++level) {
    const auto are_near = [&](std::size_t one, std::size_t other) {
      return tops[one] == tops[other] || distance_between(matrix, one, other) <= level;
    };
    const bool is_system = level == kFarthest;
    const std::size_t named = level == 1 ? 0 : level;  // PIX and PXB are both switches
    const double bandwidth = is_system ? assumed.sockets.value_or(kSocketBytesPerSecond) : assumed.pcie;
    for (const std::vector<std::size_t>& group : joined_groups(tops.size(), are_near)) {
      const std::size_t nodes = machine.nodes.size();
      join_tops(machine, group, tops,
                is_system ? "system" : fmt::format("{}{}", kInner.at(named), numbers.at(named)),
                std::min(bandwidth, assumed.pcie));
      if (!is_system && machine.nodes.size() > nodes) ++numbers.at(named);
    }
  }
}

/// Returns the network cards that are nearest to the GPU. A pair in `nics` consists of a card's column and
/// its node.
NearestNics nearest_nics(const Matrix& matrix, std::size_t gpu,
                         const std::vector<std::pair<std::size_t, std::int32_t>>& nics) {
  NearestNics nearest;
  std::size_t least = kDistances.size();
  for (const auto& [column, node] : nics) least = std::min(least, distance_between(matrix, gpu, column));
  for (const auto& [column, node] : nics) {
    if (distance_between(matrix, gpu, column) == least) nearest.nics.push_back(node);
  }
  if (!nics.empty()) nearest.relation = kDistances.at(least);
  return nearest;
}

}  // namespace

std::vector<std::string> matrix_words(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') continue;
    const std::size_t end =
        line[i] == '[' ? line.find_first_not_of("0123456789;", i + 1) : std::string_view::npos;
    if (end != std::string_view::npos && line[end] == 'm') {
      i = end;
    } else {
      plain += line[i];
    }
  }
  std::istringstream stream(plain);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> matrix_names(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    if (word == "CPU" || word == "NUMA") break;
    names.push_back(word);
  }
  return names;
}

tl::expected<Machine, std::string> machine_of_matrix(std::string_view text,
                                                     const MachineAssumptions& assumed) {
  auto matrix = matrix_of(text);
  if (!matrix) return tl::unexpected(matrix.error());
  Machine machine;
  std::vector<std::int32_t> tops;
  std::vector<std::size_t> gpu_columns;
  std::vector<std::pair<std::size_t, std::int32_t>> nics;
  for (std::size_t column = 0; column < matrix->names.size(); ++column) {
    const std::string& name = matrix->names[column];
    const bool gpu = is_gpu(name);
    tops.push_back(machine.add({.kind = gpu ? MachineNode::Kind::gpu : MachineNode::Kind::nic,
                                .name = gpu ? "gpu" + name.substr(3) : name,
                                .bytes_per_second = assumed.pcie}));
    if (gpu) {
      machine.gpus.push_back(tops.back());
      gpu_columns.push_back(column);
    } else {
      nics.emplace_back(column, tops.back());
    }
  }
  NvlinkCounts counts{.between =
                          std::vector(gpu_columns.size(), std::vector<std::int32_t>(gpu_columns.size(), 0))};
  std::vector<NearestNics> nearest;
  for (std::size_t i = 0; i < gpu_columns.size(); ++i) {
    for (std::size_t j = 0; j < gpu_columns.size(); ++j)
      counts.between[i][j] = matrix->rows[gpu_columns[i]][gpu_columns[j]].nvlinks;
    nearest.push_back(nearest_nics(*matrix, gpu_columns[i], nics));
  }
  add_nvlinks(machine, counts, assumed);
  add_tree(machine, *matrix, std::move(tops), assumed);
  share_nics(machine, nearest);
  machine.assumed = fmt::format("PCIe {:.4g} GB/s (pcie), between processors {:.4g} GB/s (sockets)",
                                assumed.pcie / 1e9, assumed.sockets.value_or(kSocketBytesPerSecond) / 1e9);
  return machine;
}

}  // namespace penstock
