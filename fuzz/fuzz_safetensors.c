/* Any bytes as a .safetensors file. */
#include "fuzz/open_and_read.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    open_and_read(data, size, "input.safetensors");
    return 0;
}
