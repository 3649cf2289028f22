# cmake -D PROGRAM=FILE -D EMULATOR=COMMAND -D PREFIX=NAME -D LEFT_OUT=PATTERNS -D SERIAL=REGEX -D PROPERTIES=LIST
#       -D OUTPUT=FILE -P suites.cmake
# Writes the ctests of a program of GoogleTest. A suite is one ctest, PREFIX.Suite: most tests end sooner than a program starts.
# A suite with parameters is a ctest for each of its tests, PREFIX.Suite.Test: these tests are long.
execute_process(COMMAND ${EMULATOR} ${PROGRAM} --gtest_list_tests --gtest_filter=-${LEFT_OUT} OUTPUT_VARIABLE listed
                TIMEOUT 60 COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE " *#[^\n]*" "" listed "${listed}")  # the values of parameters
string(REPLACE "\n" ";" lines "${listed}")

set(names "")
foreach(line ${lines})
  if(line MATCHES "^([A-Za-z0-9_/]+)[.]$")
    set(suite ${CMAKE_MATCH_1})
    string(REGEX REPLACE "^.*/" "" short ${suite})  # without the name of the instantiation
  elseif(line MATCHES "^  ([A-Za-z0-9_]+)(/?)")
    set(name ${PREFIX}.${short})
    set(filter "${suite}.*")
    if(CMAKE_MATCH_2)
      set(name ${name}.${CMAKE_MATCH_1})
      set(filter "${suite}.${CMAKE_MATCH_1}/*")
    endif()
    list(APPEND names ${name})
    list(APPEND filters_${name} ${filter})
  endif()
endforeach()
list(REMOVE_DUPLICATES names)

set(content "")
foreach(name ${names})
  list(REMOVE_DUPLICATES filters_${name})
  list(JOIN filters_${name} ":" filter)
  set(properties "${PROPERTIES}")
  if(SERIAL AND name MATCHES "${SERIAL}")
    list(APPEND properties RUN_SERIAL ON)
  endif()
  list(TRANSFORM properties REPLACE "(.+)" "[==[\\1]==]")
  list(JOIN properties " " properties)
  string(APPEND content "add_test(${name} ${EMULATOR} [==[${PROGRAM}]==] [==[--gtest_filter=${filter}-${LEFT_OUT}]==])\n"
                        "set_tests_properties(${name} PROPERTIES ${properties})\n")
endforeach()
file(WRITE ${OUTPUT} "${content}")
