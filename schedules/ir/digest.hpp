#pragma once
// A program's name for machines: results of sim/ and backend/ carry it so that they can be held against
// each other.

#include <cstddef>
#include <memory>
#include <string>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// A hash of 128 bits over the lowered lists, the placement and every other field, as 32 lower-case hex
/// digits: equal programs have equal digests on every machine. Linear in the number of actions; made only
/// where it is printed or compared.
std::string digest(const Program& lowered);

/// The digest of a program whose lowered lists are told one action after the other.
class DigestOfLists {
 public:
  /// Of a program with all that `program` has but its lists, which are not read, and with as many.
  explicit DigestOfLists(const Program& program);
  DigestOfLists(const DigestOfLists&) = delete;
  DigestOfLists& operator=(const DigestOfLists&) = delete;
  ~DigestOfLists();

  /// The next rank's list, from the lowest rank to the highest, has so many actions, which are added in its
  /// order.
  void begin_list(std::size_t actions);
  void add(const Action& action);
  /// digest() of the whole.
  std::string text() &&;

 private:
  struct Words;
  std::unique_ptr<Words> words_;
};

}  // namespace penstock
