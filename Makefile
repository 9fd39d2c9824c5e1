# The front door; CMake does the work. `make` builds the program as build/mlxn.
#
#   make demo       the main job on the data in examples/data, verified
#   make check      build, and run every test
#   make bench      time the ops beside this machine's copy, fill and read (ARGS="exp --json x.json")
#   make install    headers, libraries, program and manual page (PREFIX, DESTDIR)
#   make generate   rewrite what repeats src/ops/ops.def
#   make format     lay out all C files
#   make clean      remove the build folders

BUILD = build
PREFIX = /usr/local
CMAKE_FLAGS =
ARGS =

all: configure
	@cmake --build $(BUILD) --target mlxn_program mlxn_shared mlxn_static mlxn_io_shared mlxn_io_static

configure:
	@scripts/bootstrap.sh build
	@cmake --preset release -B $(BUILD) --log-level=WARNING -DMLXN_BUILD_TESTS=OFF \
	    -DCMAKE_INSTALL_PREFIX="$(PREFIX)" $(CMAKE_FLAGS) >/dev/null

demo: all
	@sh examples/demo.sh $(BUILD)

check:
	@scripts/bootstrap.sh check
	@cmake --preset release -B $(BUILD) --log-level=WARNING -DMLXN_BUILD_TESTS=ON $(CMAKE_FLAGS) >/dev/null
	@cmake --build $(BUILD)
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j "$$(nproc)"

bench: all
	@$(BUILD)/mlxn bench $(ARGS)

install: all
	@cmake --install $(BUILD)

generate: configure
	@cmake --build $(BUILD) --target generate

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf build build-*

.PHONY: all configure demo check bench install generate format clean
