# kolo_options: warnings and sanitizers, linked privately by every target of this project.
add_library(kolo_options INTERFACE)
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(kolo_options INTERFACE -Wall -Wextra -Wpedantic)
else()
  target_compile_options(kolo_options INTERFACE -w)  # warnings about kolo are for kolo's own builds
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # At -O3 it takes "text" + std::string() for a copy onto itself: gcc.gnu.org/bugzilla/show_bug.cgi?id=105651.
  target_compile_options(kolo_options INTERFACE -Wno-restrict)
endif()
if(KOLO_WERROR)
  target_compile_options(kolo_options INTERFACE -Werror)
endif()
if(KOLO_SANITIZE STREQUAL "address")
  # Null pointers end a program anyway; looking for them and for wrong types takes as long to compile as all the rest.
  set(kolo_sanitizers -fsanitize=address,undefined -fno-sanitize=null,vptr -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
elseif(KOLO_SANITIZE STREQUAL "thread")
  set(kolo_sanitizers -fsanitize=thread -fno-omit-frame-pointer)
elseif(KOLO_SANITIZE)
  message(FATAL_ERROR "KOLO_SANITIZE must be address or thread, not '${KOLO_SANITIZE}'")
endif()
if(KOLO_SANITIZE)
  target_compile_options(kolo_options INTERFACE ${kolo_sanitizers})
  target_link_options(kolo_options INTERFACE ${kolo_sanitizers})
endif()

# Linked behind kolo_options where looking for undefined behaviour is not worth twice the time to compile.
add_library(kolo_without_undefined INTERFACE)
if(KOLO_SANITIZE STREQUAL "address")
  target_compile_options(kolo_without_undefined INTERFACE -fno-sanitize=undefined)
endif()

# kolo_compile_quickly(TARGET): for code whose loops are those of libkolo, kolo_compression and libtorch. -O1 compiles in
# little more than half the time of -O2 and -O3.
function(kolo_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()
