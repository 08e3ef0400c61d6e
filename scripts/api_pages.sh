#!/usr/bin/env bash
# Makes the pages of the C++ interface with Doxygen:
#   scripts/api_pages.sh [FOLDER]    the pages come into FOLDER/html; default build/api
# They show the stable headers (include/penstock) and the headers that these include. The script fails if Doxygen warns,
# for example because a comment names a parameter or a stable name that does not exist.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-build/api}
command -v doxygen >/dev/null || { echo "api_pages.sh: needs doxygen (Debian: apt-get install doxygen)" >&2; exit 2; }

mapfile -t stable < <(ls include/penstock/*.hpp)
mapfile -t included < <(sed -n 's/^#include "\([^"]*\)".*/\1/p' "${stable[@]}" | grep -v '^penstock/' | sort -u)
mkdir -p "$folder"
doxygen - <<CONFIG
PROJECT_NAME = Penstock
PROJECT_BRIEF = "Predicts and executes pipeline-parallel training schedules"
PROJECT_NUMBER = $(sed -n 's/^project(penstock VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
OUTPUT_DIRECTORY = "$folder"
INPUT = ${stable[*]} ${included[*]}
STRIP_FROM_PATH = include .
STRIP_FROM_INC_PATH = include .
JAVADOC_AUTOBRIEF = YES
EXTRACT_ALL = YES
HIDE_UNDOC_RELATIONS = YES
GENERATE_LATEX = NO
HAVE_DOT = NO
QUIET = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
CONFIG
echo "$folder/html/index.html: ${#stable[@]} stable headers, and ${#included[@]} that they include"
