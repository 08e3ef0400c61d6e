# Processes that torchrun starts share a sweep over sockets, and the first one writes the bytes that one process writes.
# Here the variables that torchrun sets are all there is of it. PENSTOCK: the executable; SCRATCH: a folder for
# what is written.

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
set(sweep ${PENSTOCK} sweep --pp-size 1..6 --num-microbatches 1,2,4..32 --json --schedule)
set(ENV{TORCHELASTIC_RUN_ID} test)
set(ENV{MASTER_ADDR} 127.0.0.1)
string(RANDOM LENGTH 3 ALPHABET 0123456789 port)
set(ENV{MASTER_PORT} 29${port})

# Runs the same command in three processes at once; what rank 0 prints and all say of errors, and their exit codes.
function(run_three)
  set(ENV{WORLD_SIZE} 3)
  set(rank ${CMAKE_COMMAND} -E env)
  execute_process(COMMAND ${rank} RANK=2 ${ARGN} COMMAND ${rank} RANK=1 ${ARGN} COMMAND ${rank} RANK=0 ${ARGN}
                  OUTPUT_VARIABLE text ERROR_VARIABLE errors RESULTS_VARIABLE codes WORKING_DIRECTORY ${SCRATCH} TIMEOUT 60)
  set(text "${text}" PARENT_SCOPE)
  set(errors "${errors}" PARENT_SCOPE)
  set(codes "${codes}" PARENT_SCOPE)
endfunction()

set(ENV{WORLD_SIZE} 1)
execute_process(COMMAND ${sweep} gpipe,1f1b,interleaved,1f1b-rr OUTPUT_VARIABLE alone COMMAND_ERROR_IS_FATAL ANY)

foreach(flags "" "--resume;progress" "--resume;progress")
  run_three(${sweep} gpipe,1f1b,interleaved,1f1b-rr ${flags})
  if(NOT text STREQUAL alone OR NOT codes STREQUAL "0;0;0")
    message(FATAL_ERROR "three processes say other than one (${flags}; ${codes}):\n${errors}\n${text}\n${alone}")
  endif()
endforeach()

run_three(${sweep} nonsense)
string(REGEX MATCHALL "unknown schedule" times "${errors}")
list(LENGTH times count)
if(NOT codes STREQUAL "2;2;2" OR NOT count EQUAL 1)
  message(FATAL_ERROR "a fault is to be said once, by one of all, and to end them; ${codes}:\n${errors}")
endif()
