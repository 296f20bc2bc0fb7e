# What is installed and packaged: library, headers, pkg-config, CMake package, program, manual pages, licence.
include(CMakePackageConfigHelpers)

# For `ptmill --version`.  A library keeps to its room, so the versions are those that the build found.
set(_libs "libipt ${LIBIPT_VERSION}" "zydis ${zydis_VERSION}")
foreach(_lib capstone:CAPSTONE hwloc:HWLOC zstd:ZSTD elfutils:ELF_libelf json-c:JSON xxhash:XXHASH liburcu:URCU_liburcu-qsbr)
  string(REPLACE ":" ";" _lib ${_lib})
  list(GET _lib 0 _name)
  list(GET _lib 1 _var)
  list(APPEND _libs "${_name} ${PTM_${_var}_VERSION}")
endforeach()
string(REPLACE ";" ", " PTM_LIBRARIES "${_libs}")
configure_file(cmake/ptm_libraries.h.in ${PROJECT_BINARY_DIR}/include/ptm_libraries.h @ONLY)

# Only ptm_* leaves the shared library: visibility is hidden already, the script keeps out what static dependencies
# might bring along.
target_link_options(ptmill_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/src/ptmill.map -Wl,-z,defs)
if(PTM_SANITIZE)
  # The sanitizers' run time comes with the program.
  target_link_options(ptmill_shared PRIVATE -Wl,-z,undefs)
endif()
set_target_properties(ptmill_shared PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/ptmill.map EXPORT_NAME ptmill)
add_library(ptmill::ptmill ALIAS ptmill_shared)
add_library(ptmill::ptmill_static ALIAS ptmill_static)

install(TARGETS ptmill_shared EXPORT ptmillTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ptmill_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ptmill TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/include/ptmill/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ptmill)
install(FILES LICENSE CHANGELOG.md README.md TYPE DOC OPTIONAL)

# The CMake package.  The static library is written down by hand: its dependencies are found by the consumer.
set(PTM_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/ptmill)
set(PTM_INSTALLED_STATIC ${CMAKE_INSTALL_LIBDIR}/libptmill.a)
set(PTM_INSTALLED_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT ptmillTargets NAMESPACE ptmill:: DESTINATION ${PTM_INSTALL_CMAKEDIR})
configure_package_config_file(cmake/ptmillConfig.cmake.in ${PROJECT_BINARY_DIR}/ptmillConfig.cmake
  INSTALL_DESTINATION ${PTM_INSTALL_CMAKEDIR} PATH_VARS PTM_INSTALLED_STATIC PTM_INSTALLED_INCLUDE)
# Below 1.0 each minor version may break the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ptmillConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ptmillConfig.cmake ${PROJECT_BINARY_DIR}/ptmillConfigVersion.cmake
        DESTINATION ${PTM_INSTALL_CMAKEDIR})

# pkg-config.  The prefix is relative to the file, so that an installed tree may be moved.
file(RELATIVE_PATH PTM_PC_PREFIX /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig /usr)
string(REGEX REPLACE "/$" "" PTM_PC_PREFIX "${PTM_PC_PREFIX}")
configure_file(cmake/ptmill.pc.in ${PROJECT_BINARY_DIR}/ptmill.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ptmill.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Manual pages.
find_program(SCDOC scdoc)
if(PTM_BUILD_MAN AND SCDOC)
  file(GLOB _pages CONFIGURE_DEPENDS docs/*.scd)
  set(_made "")
  foreach(_page IN LISTS _pages)
    get_filename_component(_name ${_page} NAME)
    string(REGEX REPLACE "\\.scd$" "" _name ${_name})
    string(REGEX MATCH "[0-9]$" _section ${_name})
    # SOURCE_DATE_EPOCH: the date in the page is not that of the build.
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man/${_name}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
      COMMAND ${CMAKE_COMMAND} -E env SOURCE_DATE_EPOCH=1767225600
              sh -c "${SCDOC} < '${_page}' > '${PROJECT_BINARY_DIR}/man/${_name}'"
      DEPENDS ${_page} VERBATIM)
    list(APPEND _made ${PROJECT_BINARY_DIR}/man/${_name})
    install(FILES ${PROJECT_BINARY_DIR}/man/${_name} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${_section})
  endforeach()
  add_custom_target(man ALL DEPENDS ${_made})
endif()

# `cpack -G DEB` in the build directory makes one package; its dependencies are read from the binaries.
set(CPACK_PACKAGE_NAME ptmill)
set(CPACK_PACKAGE_VENDOR "ptmill")
set(CPACK_PACKAGE_CONTACT "The ptmill authors <ptmill@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Our own shared library is in the package itself.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src)
if(PROJECT_IS_TOP_LEVEL)
  include(CPack)
endif()

if(PTM_BUILD_TESTS)
  enable_testing()
  add_subdirectory(tests/install)
endif()
