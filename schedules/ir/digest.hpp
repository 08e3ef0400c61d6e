#pragma once
// The digest of a program. Results of sim/ and backend/ carry it, so that `penstock compare` can tell whether
// they come from the same program.

#include <cstddef>
#include <memory>
#include <string>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns a 128-bit hash over the lowered lists, the placement and every other field, as 32 lower-case hex
/// digits. Equal programs have equal digests on every machine. Takes time in proportion to the number of
/// actions.
std::string digest(const Program& lowered);

/// The digest of a program whose lowered lists arrive one action at a time.
class DigestOfLists {
 public:
  /// Begins the digest of a program that has all fields of `program` and as many ranks. The lists of
  /// `program` are not read.
  explicit DigestOfLists(const Program& program);
  DigestOfLists(const DigestOfLists&) = delete;
  DigestOfLists& operator=(const DigestOfLists&) = delete;
  ~DigestOfLists();

  /// Begins the list of the next rank, from the lowest rank to the highest. Exactly `actions` calls of add()
  /// must follow, in the order of the list.
  void begin_list(std::size_t actions);
  void add(const Action& action);
  /// Returns what digest() returns for the whole program.
  std::string text() &&;

 private:
  struct Words;
  std::unique_ptr<Words> words_;
};

}  // namespace penstock
