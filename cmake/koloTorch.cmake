# find_package(Torch), with the libraries that lie beside the package that it finds.
#
# PyTorch's own files look for libtorch.so and libc10.so in the system's folders first. Those of another PyTorch may be there (Debian's
# libtorch-dev), and a program with the libraries of two dies of corrupted memory.
#
# Where CUDA's compiler is installed, a PyTorch with CUDA probes for GPUs, in a language that CMake 3.25 does not know. It does not
# probe if TORCH_CUDA_ARCH_LIST is set. kolo compiles nothing for GPUs, so any value will do.
if(NOT TORCH_CUDA_ARCH_LIST AND NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST})
  set(TORCH_CUDA_ARCH_LIST 8.0)
  message(STATUS "TORCH_CUDA_ARCH_LIST is empty, and set to ${TORCH_CUDA_ARCH_LIST}, so that PyTorch does not probe for GPUs")
endif()
if(CMAKE_FIND_PACKAGE_NAME)  # in koloConfig.cmake
  find_dependency(Torch)
else()
  find_package(Torch REQUIRED)
endif()
if(TORCH_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
  message(FATAL_ERROR "PyTorch ${Torch_VERSION} in ${TORCH_INSTALL_PREFIX} was compiled for the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0), in which "
                      "std::string is another type than in kolo and in the system's libraries. Versions from 2.7 on have the new one, as "
                      "Debian's have")
endif()

get_target_property(kolo_torch_cpu torch_cpu LOCATION)
cmake_path(GET kolo_torch_cpu PARENT_PATH kolo_beside)
foreach(kolo_library TORCH_LIBRARY c10_LIBRARY)
  cmake_path(GET ${kolo_library} FILENAME kolo_own)
  cmake_path(SET kolo_own ${kolo_beside}/${kolo_own})
  if(${kolo_library} STREQUAL kolo_own)
    continue()
  endif()
  if(NOT EXISTS ${kolo_own})
    message(FATAL_ERROR "PyTorch's ${kolo_own} is missing, and ${${kolo_library}} belongs to another PyTorch than ${kolo_torch_cpu}")
  endif()
  message(STATUS "PyTorch: ${kolo_own} is taken, not ${${kolo_library}}")
  list(TRANSFORM TORCH_LIBRARIES REPLACE "^${${kolo_library}}$" ${kolo_own})
  set(${kolo_library} ${kolo_own} CACHE FILEPATH "A library of PyTorch" FORCE)
endforeach()
set_property(TARGET torch PROPERTY IMPORTED_LOCATION ${TORCH_LIBRARY})
