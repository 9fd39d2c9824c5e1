/* The correctly rounded functions, by file name. */
