# Installs headers, libraries, the program and its manual page, and what others find them with: mlxn.pc,
# mlxn-io.pc and a CMake package. Both are relocatable.
include(CMakePackageConfigHelpers)

set(mlxn_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/mlxn)
set(mlxn_libraries mlxn_shared mlxn_static)
install(FILES include/mlxn/mlxn.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mlxn)
if(MLXN_BUILD_IO)
  list(APPEND mlxn_libraries mlxn_io_shared mlxn_io_static)
  install(FILES include/mlxn/io.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mlxn)
endif()
install(TARGETS ${mlxn_libraries} EXPORT mlxn
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET mlxn_program)
  install(TARGETS mlxn_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES docs/mlxn.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# The CMake package. The static libraries pull in pthreadpool and jansson, which it finds by our modules.
configure_package_config_file(cmake/mlxnConfig.cmake.in mlxnConfig.cmake INSTALL_DESTINATION ${mlxn_package_folder})
write_basic_package_version_file(mlxnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mlxnConfig.cmake ${PROJECT_BINARY_DIR}/mlxnConfigVersion.cmake
  cmake/FindPthreadpool.cmake cmake/FindJansson.cmake DESTINATION ${mlxn_package_folder})
install(EXPORT mlxn NAMESPACE mlxn:: FILE mlxnTargets.cmake DESTINATION ${mlxn_package_folder})

# The pkg-config files, by the way from themselves to the prefix, so that a moved tree still works.
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
  set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH pc_up /prefix/${pc_folder} /prefix)
  set(pc_prefix "\${pcfiledir}/${pc_up}")
  string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/mlxn.pc.in mlxn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mlxn.pc DESTINATION ${pc_folder})
if(MLXN_BUILD_IO)
  configure_file(cmake/mlxn-io.pc.in mlxn-io.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/mlxn-io.pc DESTINATION ${pc_folder})
endif()
