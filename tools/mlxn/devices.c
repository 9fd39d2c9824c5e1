/* mlxn devices */
#include <stdio.h>

#include "text.h"
#include "verbs.h"

tool_exit tool_devices(const tool_arguments *arguments) {
    (void)arguments;
    for (size_t i = 0; i < mlxn_device_count(); i++) {
        mlxn_device_info info = {.size = sizeof info};
        if (mlxn_device_at(i, &info) != MLXN_OK) {
            tool_error("%s", mlxn_last_error());
            return TOOL_FAILURE;
        }
        printf("%c %-10s ", info.is_default ? '*' : ' ', info.name);
        if (info.available) {
            printf("%s (%s)\n", info.description, info.detail);
        } else {
            printf("absent: %s\n", info.reason);
        }
    }
    return TOOL_SUCCESS;
}
