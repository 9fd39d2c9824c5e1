# How every target of the project is compiled.

# mlxn_configure(target): language, warnings, floating point, include folders.
function(mlxn_configure target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 17 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE=)
  target_compile_options(${target} PRIVATE
    -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    # gcc's guess at what may be uninitialized errs at -O3; clang's analyzer (clang-tidy) does that work.
    $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    $<$<BOOL:${MLXN_WERROR}>:-Werror>)
endfunction()

# mlxn_library(target name file objects…): the libraries `target`_shared and `target`_static, both called lib`file`.
# Others know them as mlxn::`name` and mlxn::`name`_static. (A target called mlxn would be mistaken for the program.)
function(mlxn_library target name file)
  add_library(${target}_shared SHARED ${ARGN})
  add_library(${target}_static STATIC ${ARGN})
  add_library(mlxn::${name} ALIAS ${target}_shared)
  add_library(mlxn::${name}_static ALIAS ${target}_static)
  set_target_properties(${target}_shared PROPERTIES EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  set_target_properties(${target}_static PROPERTIES EXPORT_NAME ${name}_static)
  target_link_options(${target}_shared PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map")
  if(NOT CMAKE_C_FLAGS MATCHES "-fsanitize") # clang leaves a sanitizer's functions to the program
    target_link_options(${target}_shared PRIVATE LINKER:--no-undefined)
  endif()
  foreach(library ${target}_shared ${target}_static)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME ${file} LINKER_LANGUAGE C)
    target_include_directories(${library} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
endfunction()

# mlxn_instruction_sets(out): the instruction sets of this architecture, the plainest first, in `out`; the
# compiler flags of each in mlxn_isa_flags_<isa>.
function(mlxn_instruction_sets out)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(isas baseline avx2 avx512)
    set(mlxn_isa_flags_baseline "" PARENT_SCOPE)
    set(avx2 -mavx2 -mfma -mf16c)
    set(mlxn_isa_flags_avx2 ${avx2} PARENT_SCOPE)
    set(mlxn_isa_flags_avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl PARENT_SCOPE)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(isas neon)
    set(mlxn_isa_flags_neon "" PARENT_SCOPE)
  else()
    set(isas baseline)
    set(mlxn_isa_flags_baseline "" PARENT_SCOPE)
  endif()
  set(${out} ${isas} PARENT_SCOPE)
endfunction()
