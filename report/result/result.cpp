// The names of the kinds of result, as JSON and tables spell them. A prediction and a measurement have one
// type and one schema, so that whatever shows or compares the one takes the other.

#include "report/result/result.hpp"

#include <string_view>

namespace penstock {

std::string_view to_text(ResultKind kind) {
  switch (kind) {
    case ResultKind::predicted:
      return "predicted";
    case ResultKind::measured:
      return "measured";
  }
  return "";
}

std::string_view to_text(LinkSharing sharing) {
  switch (sharing) {
    case LinkSharing::none:
      return "none";
    case LinkSharing::counted:
      return "counted";
    case LinkSharing::left_out:
      return "left out";
  }
  return "";
}

}  // namespace penstock
