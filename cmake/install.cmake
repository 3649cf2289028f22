# Installing and packaging: the CMake package `kolo`, the pkg-config modules `kolo` and `kolo-train`, Debian packages by
# CPack.
#
# Components, which are the Debian packages too: runtime (libkolo, with the version of its interface in the name), dev
# (libkolo-dev), tools (kolo-tools), and with the training layer train (libkolo-train, named likewise) and train-dev
# (libkolo-train-dev). With the backend of torch.distributed also python (python3-kolo-torch).
include(CMakePackageConfigHelpers)

set(kolo_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kolo)

# --- Libraries and headers -----------------------------------------------------------------------------------------
# kolo_install_library(TARGET COMPONENT DEV_COMPONENT EXPORT INCLUDE_FOLDER)
function(kolo_install_library target component dev_component export include)
  # A program that links a static library gets its private dependencies too, also kolo_options (empty once installed).
  install(TARGETS ${target} EXPORT ${export}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT ${dev_component}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${dev_component})
  install(EXPORT ${export} NAMESPACE kolo:: DESTINATION ${kolo_cmake_dir} COMPONENT ${dev_component})
  install(DIRECTORY ${include}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${dev_component}
          FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
  # Found wherever the whole installation is moved to.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
endfunction()

kolo_install_library(kolo runtime dev koloTargets ${PROJECT_SOURCE_DIR}/include)
if(NOT BUILD_SHARED_LIBS)
  install(TARGETS kolo_options EXPORT koloTargets)
endif()
if(KOLO_TRAIN)
  kolo_install_library(kolo_train train train-dev koloTrainTargets ${PROJECT_SOURCE_DIR}/train/include)
  install(FILES cmake/koloTorch.cmake DESTINATION ${kolo_cmake_dir} COMPONENT train-dev)
endif()

file(RELATIVE_PATH kolo_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
if(KOLO_CLI)
  set_target_properties(kolo_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${kolo_bin_to_lib}")
  install(TARGETS kolo_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()

# --- find_package(kolo) and pkg-config -----------------------------------------------------------------------------
configure_package_config_file(cmake/koloConfig.cmake.in ${PROJECT_BINARY_DIR}/koloConfig.cmake
                              INSTALL_DESTINATION ${kolo_cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/koloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/koloConfig.cmake ${PROJECT_BINARY_DIR}/koloConfigVersion.cmake
        DESTINATION ${kolo_cmake_dir} COMPONENT dev)

# The prefix is where the file lies, so that a moved installation still works.
file(RELATIVE_PATH kolo_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" kolo_pc_to_prefix "${kolo_pc_to_prefix}")
# What a static libkolo is linked with. pkg-config demands it also of programs that link the shared one, and only packages for
# development have it.
set(kolo_pc_requires "")
set(kolo_train_pc_requires "")
if(NOT BUILD_SHARED_LIBS)
  set(kolo_pc_requires "fmt spdlog libssl libcrypto libhwy")
  set(kolo_train_pc_requires zlib)
endif()
configure_file(cmake/kolo.pc.in ${PROJECT_BINARY_DIR}/kolo.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/kolo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
if(KOLO_TRAIN)
  # libtorch has no pkg-config module: kolo-train names its headers and libraries.
  list(JOIN kolo_torch_cflags " " kolo_torch_cflags)
  get_filename_component(kolo_torch_libdir ${TORCH_LIBRARY} DIRECTORY)
  configure_file(cmake/kolo-train.pc.in ${PROJECT_BINARY_DIR}/kolo-train.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/kolo-train.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT train-dev)
endif()

# --- Debian packages: scripts/make-packages, or `cpack` in the build folder ----------------------------------------
# They hold the shared library.
if(NOT BUILD_SHARED_LIBS)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kolo)
set(CPACK_PACKAGE_CONTACT "The kolo developers <maintainers@kolo.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev)
if(KOLO_CLI)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
if(KOLO_TRAIN)
  list(APPEND CPACK_COMPONENTS_ALL train train-dev)
endif()
if(KOLO_TORCH)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# What the programs need of other packages is read from the binaries; what libkolo offers is told to others.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

# kolo_package(COMPONENT NAME SECTION SUMMARY [components it needs in the same version...])
macro(kolo_package component name section summary)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}")
  set(CPACK_COMPONENT_${upper}_DEPENDS ${ARGN})
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} RENAME copyright COMPONENT ${component})
endmacro()
kolo_package(runtime libkolo${KOLO_ABI} libs "collective communication on CPUs and ordinary networks: the library")
kolo_package(dev libkolo-dev libdevel "collective communication on CPUs and ordinary networks: headers" runtime)
if(KOLO_CLI)
  kolo_package(tools kolo-tools utils "starts, measures and explains jobs that use kolo" runtime)
endif()
if(KOLO_TRAIN)
  kolo_package(train libkolo-train${KOLO_ABI} libs "data-parallel training over libtorch: the library" runtime)
  kolo_package(train-dev libkolo-train-dev libdevel "data-parallel training over libtorch: headers" train dev)
  set(CPACK_DEBIAN_TRAIN-DEV_PACKAGE_DEPENDS libtorch-dev)
endif()
if(KOLO_TORCH)
  kolo_package(python python3-kolo-torch python "the backend kolo of PyTorch's torch.distributed")
  # The module is for one minor version of both. dpkg-shlibdeps knows neither.
  set(depends "")
  while(kolo_torch_needs)
    list(POP_FRONT kolo_torch_needs name version)
    string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" version ${version})
    math(EXPR next "${CMAKE_MATCH_2} + 1")
    list(APPEND depends "${name} (>= ${version}~)" "${name} (<< ${CMAKE_MATCH_1}.${next}~)")
  endwhile()
  list(JOIN depends ", " CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS)
  # As debhelper has it: Python's compiled files come and go with the package.
  foreach(script "postinst py3compile" "prerm py3clean")
    string(REGEX MATCH "^(.*) (.*)" script "${script}")
    set(file ${PROJECT_BINARY_DIR}/python3-kolo-torch/${CMAKE_MATCH_1})
    file(CONFIGURE OUTPUT ${file} CONTENT "#!/bin/sh\nset -e\nif command -v ${CMAKE_MATCH_2} >/dev/null; then ${CMAKE_MATCH_2} -p python3-kolo-torch; fi\n")
    file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    list(APPEND CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${file})
  endforeach()
endif()
include(CPack)
