#pragma once
// Computes the digest of a program. Results of sim/ and backend/ contain it, so that `penstock compare` can
// check whether two results belong to the same program.

#include <cstddef>
#include <memory>
#include <string>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns a 128-bit hash of the lowered lists, the placement and all other fields, as 32 lower-case hex
/// digits. Equal programs have equal digests on every machine. Takes time in proportion to the number of
/// actions.
std::string digest(const Program& lowered);

/// A calculator of a program's digest that gets one action after another, so that the lowered lists need
/// not be stored.
class DigestOfLists {
 public:
  /// Begins the digest of a program with the fields and the number of ranks of `program`. It does not read
  /// the lists of `program`, because add() gets the actions.
  explicit DigestOfLists(const Program& program);
  DigestOfLists(const DigestOfLists&) = delete;
  DigestOfLists& operator=(const DigestOfLists&) = delete;
  ~DigestOfLists();

  /// Begins the list of the next rank. Ranks come in ascending order. Exactly `actions` calls of add() must
  /// follow, in the order of the list.
  void begin_list(std::size_t actions);
  void add(const Action& action);
  /// Returns the digest, which equals the result of digest() for the whole program.
  std::string text() &&;

 private:
  struct Words;
  std::unique_ptr<Words> words_;
};

}  // namespace penstock
