#!/usr/bin/env bash
# Writes FILE as the one comment of Penstock on a pull request:
#   comment.sh NUMBER FILE
# A comment that an earlier run wrote is edited in place. It is found by its first line. The script needs gh(1), and
# the variables GITHUB_REPOSITORY and GH_TOKEN. A token that may not write comments, as in pull requests of forks, is
# reported as a warning and fails nothing.
set -euo pipefail
number=$1
file=$2
marker='<!-- penstock check -->'
comments=repos/$GITHUB_REPOSITORY/issues/$number/comments

[[ -s $file ]] || { echo "comment.sh: there is no report $file, so there is nothing to comment" >&2; exit 0; }
body=$(printf '%s\n%s\n' "$marker" "$(cat "$file")")
# GitHub takes comments of at most 65 536 characters.
most=65000
if ((${#body} > most)); then body=${body:0:most}$'\n\n... (the report in the artifacts has the rest)'; fi

warn() { echo "::warning title=penstock check::the comment could not be written: $*"; exit 0; }
found=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$marker\")) | .id") ||
  warn "the comments of pull request $number cannot be read"
own=$(head -n 1 <<<"$found")
if [[ -n $own ]]; then
  gh api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$own" --raw-field "body=$body" --silent ||
    warn "the token needs the permission pull-requests: write"
else
  gh api --method POST "$comments" --raw-field "body=$body" --silent ||
    warn "the token needs the permission pull-requests: write"
fi
