# Finds pthreadpool, which ships neither a pkg-config nor a CMake file. Defines pthreadpool::pthreadpool.
find_path(PTHREADPOOL_INCLUDE_DIR pthreadpool.h)
find_library(PTHREADPOOL_LIBRARY pthreadpool)
mark_as_advanced(PTHREADPOOL_INCLUDE_DIR PTHREADPOOL_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pthreadpool REQUIRED_VARS PTHREADPOOL_LIBRARY PTHREADPOOL_INCLUDE_DIR)

if(Pthreadpool_FOUND AND NOT TARGET pthreadpool::pthreadpool)
  add_library(pthreadpool::pthreadpool UNKNOWN IMPORTED)
  set_target_properties(pthreadpool::pthreadpool PROPERTIES
    IMPORTED_LOCATION "${PTHREADPOOL_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${PTHREADPOOL_INCLUDE_DIR}")
endif()
