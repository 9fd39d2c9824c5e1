/* Statuses, dtypes, version and the per-thread message. */
#include <pthread.h>

#include "support/test.h"

static void status_texts(void **state) {
    (void)state;
    static const char *const texts[] = {"success",
                                        "invalid argument",
                                        "shape mismatch",
                                        "dtype mismatch",
                                        "out of memory",
                                        "unsupported",
                                        "not found",
                                        "already exists",
                                        "invalid state",
                                        "kernel compilation failed",
                                        "execution failed on the device",
                                        "file operation failed",
                                        "malformed file"};
    for (int i = 0; i < (int)(sizeof texts / sizeof texts[0]); i++)
        assert_string_equal(mlxn_status_text((mlxn_status)i), texts[i]);
    assert_int_equal(MLXN_OK, 0);
    assert_int_equal(MLXN_BAD_FORMAT, 12);
    assert_string_equal(mlxn_status_text((mlxn_status)13), "unknown status");
    assert_string_equal(mlxn_status_text((mlxn_status)-1), "unknown status");
    assert_string_equal(mlxn_status_text((mlxn_status)99999), "unknown status");
}

static void dtypes(void **state) {
    (void)state;
    static const struct {
        mlxn_dtype dtype;
        const char *name;
        size_t size;
    } rows[] = {{MLXN_F32, "f32", 4}, {MLXN_F16, "f16", 2}, {MLXN_BF16, "bf16", 2},
                {MLXN_F64, "f64", 8}, {MLXN_U8, "u8", 1},   {MLXN_U16, "u16", 2},
                {MLXN_U32, "u32", 4}, {MLXN_I32, "i32", 4}, {MLXN_I64, "i64", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        mlxn_dtype found = (mlxn_dtype)99;
        assert_int_equal(rows[i].dtype, i);
        assert_string_equal(mlxn_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(mlxn_dtype_size(rows[i].dtype), rows[i].size);
        OK(mlxn_dtype_from_name(rows[i].name, &found));
        assert_int_equal(found, rows[i].dtype);
    }
    for (int wrong = -1; wrong < 200; wrong += 100) {
        const mlxn_dtype dtype = (mlxn_dtype)wrong;
        assert_string_equal(mlxn_dtype_name(dtype), "unknown dtype");
        assert_int_equal(mlxn_dtype_size(dtype), 0);
    }
    assert_string_equal(mlxn_dtype_name((mlxn_dtype)9), "unknown dtype");
    static const char *const wrong[] = {"", "f", "F32", "f320", "float32", " f32", "unknown dtype"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        mlxn_dtype found = (mlxn_dtype)77;
        FAILS(MLXN_NOT_FOUND, mlxn_dtype_from_name(wrong[i], &found));
        assert_int_equal(found, 77);
    }
    char endless[5000];
    memset(endless, 'f', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    mlxn_dtype found;
    FAILS(MLXN_NOT_FOUND, mlxn_dtype_from_name(endless, &found));
}

static void version(void **state) {
    (void)state;
    assert_string_equal(mlxn_version(), MLXN_VERSION_STRING);
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", MLXN_VERSION_MAJOR, MLXN_VERSION_MINOR, MLXN_VERSION_PATCH);
    assert_string_equal(mlxn_version(), text);
}

static void *fail_in_thread(void *context) {
    mlxn_dtype dtype;
    const char **texts = context;
    texts[0] = strdup(mlxn_last_error());
    const mlxn_status status = mlxn_dtype_from_name("elsewhere", &dtype);
    texts[1] = strdup(mlxn_last_error());
    return status == MLXN_NOT_FOUND ? context : NULL;
}

static void message_belongs_to_a_thread(void **state) {
    (void)state;
    mlxn_dtype dtype;
    FAILS_WITH(MLXN_NOT_FOUND, "here", mlxn_dtype_from_name("here", &dtype));
    pthread_t thread;
    char *texts[2] = {NULL, NULL};
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, texts), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    assert_string_equal(texts[0], "");
    assert_non_null(strstr(texts[1], "elsewhere"));
    assert_non_null(strstr(mlxn_last_error(), "\"here\""));
    /* A call that succeeds leaves the message alone. */
    OK(mlxn_dtype_from_name("f32", &dtype));
    assert_non_null(strstr(mlxn_last_error(), "\"here\""));
    free(texts[0]);
    free(texts[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_texts),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(version),
        cmocka_unit_test(message_belongs_to_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
