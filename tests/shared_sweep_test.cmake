# Processes that a launcher starts share a sweep, and write the bytes that one process writes; with --resume, too.
# PENSTOCK: the executable; MPIEXEC: the launcher; SCRATCH: a folder for what is written.

set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
set(ENV{OMPI_MCA_rmaps_base_oversubscribe} 1)
# MPI keeps memory to its end: beside the address sanitizer leaks are no fault of a process that MPI is in.
set(ENV{ASAN_OPTIONS} "detect_leaks=0")
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
set(sweep ${PENSTOCK} sweep --schedule gpipe,1f1b,interleaved,1f1b-rr --pp-size 1..6 --num-microbatches 1,2,4..32 --json)

# Runs a sweep behind `launcher` and puts what it prints into `result`.
function(printed result launcher)
  execute_process(COMMAND ${launcher} ${sweep} ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE errors RESULT_VARIABLE status
                  WORKING_DIRECTORY ${SCRATCH})
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "'${launcher}' ended with ${status}:\n${errors}")
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

printed(alone "")
set(first_time "--resume;progress")
set(second_time "--resume;progress")
foreach(flags "" first_time second_time)
  printed(shared "${MPIEXEC};-n;3" ${${flags}})
  if(NOT shared STREQUAL alone)
    message(FATAL_ERROR "three processes say other than one (${flags}):\n${shared}\n${alone}")
  endif()
endforeach()

execute_process(COMMAND ${MPIEXEC} -n 2 ${PENSTOCK} sweep --schedule nonsense --pp-size 2 --num-microbatches 2
                ERROR_VARIABLE errors OUTPUT_QUIET RESULT_VARIABLE status WORKING_DIRECTORY ${SCRATCH})
string(REGEX MATCHALL "unknown schedule" times "${errors}")
list(LENGTH times count)
if(status EQUAL 0 OR NOT count EQUAL 1)
  message(FATAL_ERROR "a fault is to be said once, by one of all, and to end them; status ${status}:\n${errors}")
endif()
