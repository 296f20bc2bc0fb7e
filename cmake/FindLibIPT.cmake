# libipt has neither a pkg-config file nor a CMake package: header plus library.
find_path(LIBIPT_INCLUDE_DIR intel-pt.h)
find_library(LIBIPT_LIBRARY ipt)
if(LIBIPT_INCLUDE_DIR)
  file(STRINGS ${LIBIPT_INCLUDE_DIR}/intel-pt.h _ipt REGEX "#define LIBIPT_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX REPLACE "[^0-9;]+" "" _ipt "${_ipt}")
  string(REPLACE ";" "." LIBIPT_VERSION "${_ipt}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibIPT REQUIRED_VARS LIBIPT_LIBRARY LIBIPT_INCLUDE_DIR
                                  VERSION_VAR LIBIPT_VERSION)
if(LibIPT_FOUND AND NOT TARGET ptm::IPT)
  add_library(ptm::IPT UNKNOWN IMPORTED)
  set_target_properties(ptm::IPT PROPERTIES IMPORTED_LOCATION ${LIBIPT_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${LIBIPT_INCLUDE_DIR})
endif()
