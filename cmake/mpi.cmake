# Looks for MPI, over which the processes that a launcher starts share the points of a sweep, and says in one line what it
# found or why not. Sets PENSTOCK_MPI_FOUND (where it is not, PENSTOCK_MPI_MISSING says why) and finds MPI::MPI_CXX.

set(PENSTOCK_WITH_MPI AUTO CACHE STRING "Sweeps shared by processes: AUTO (where MPI is found), ON (required), OFF")
set_property(CACHE PENSTOCK_WITH_MPI PROPERTY STRINGS AUTO ON OFF)

set(PENSTOCK_MPI_FOUND FALSE)
set(PENSTOCK_MPI_MISSING "")
if(PENSTOCK_WITH_MPI STREQUAL "OFF")
  set(PENSTOCK_MPI_MISSING "switched off by PENSTOCK_WITH_MPI=OFF")
else()
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(PENSTOCK_MPI_FOUND TRUE)
  else()
    set(PENSTOCK_MPI_MISSING "no mpicxx, as Debian's libopenmpi-dev brings it; sweeps run on one machine")
  endif()
endif()
penstock_report_part("MPI" PENSTOCK_WITH_MPI "${PENSTOCK_MPI_MISSING}" "${MPI_CXX_VERSION}, ${MPI_CXX_COMPILER}")
