/* The OpenCL loader as a library that is opened at run time. In a file of its own, so that tests can take its place. */
#ifndef MLXN_BACKEND_OPENCL_LIBRARY_H
#define MLXN_BACKEND_OPENCL_LIBRARY_H

/* The loader, or NULL. It stays open: a driver's threads may outlast any use of it. */
void *mlxn_opencl_open_library(void);

/* Its function of that name ("clGetPlatformIDs"), or NULL. */
void *mlxn_opencl_find_function(void *library, const char *name);

#endif
