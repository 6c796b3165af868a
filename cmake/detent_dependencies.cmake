# Every library the project uses, from the distribution's packages (scripts/install_packages.sh).

# Where this is a part of another project, that project must see the targets its own targets come to link.
if(NOT PROJECT_IS_TOP_LEVEL)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
endif()

# What the torch-free libraries link, so that detentConfig.cmake looks for the same.
# ONNX's package uses Protobuf's targets without looking for them.
set(detent_packages Threads fmt spdlog hwy nlohmann_json tomlplusplus JPEG PNG ZLIB Protobuf ONNX)
foreach(package IN LISTS detent_packages)
  find_package(${package} REQUIRED)
endforeach()
# Its target has a namespace since Debian 13; it brings the definitions that its headers need.
set(detent_onnx_proto onnx_proto)
if(TARGET ONNX::onnx_proto)
  set(detent_onnx_proto ONNX::onnx_proto)
endif()
include(detent_instruction_sets)
set_property(TARGET hwy::hwy APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS "HWY_DISABLED_TARGETS=${detent_left_out}")
find_package(CLI11 REQUIRED)
# RE2 comes without a CMake package in Debian 12 and 13.
find_path(RE2_INCLUDE_DIR re2/re2.h REQUIRED)
find_library(RE2_LIBRARY re2 REQUIRED)
# Compiled in (core/xxh64.cc), so headers alone.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
# Loaded only when something is downloaded or its digest is computed (files/loaded_library.h), so not linked.
find_package(CURL REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
add_library(detent_loaded_headers INTERFACE)
target_include_directories(detent_loaded_headers SYSTEM INTERFACE ${CURL_INCLUDE_DIRS} ${OPENSSL_INCLUDE_DIR})
if(DETENT_TORCH)
  find_package(Torch REQUIRED)
  # detent::torch: libtorch as the layers link it. Headers of single operators instead of all of them in one.
  add_library(detent_libtorch INTERFACE)
  add_library(detent::torch ALIAS detent_libtorch)
  set_target_properties(detent_libtorch PROPERTIES EXPORT_NAME torch)
  target_link_libraries(detent_libtorch INTERFACE torch torch_library c10 gomp)  # gomp: the OpenMP of libtorch
  target_compile_definitions(detent_libtorch INTERFACE AT_PER_OPERATOR_HEADERS)
  # GCC 13 and 14 warn of the vector<bool> in libtorch's autograd::Function (GCC bug 110498).
  target_compile_options(detent_libtorch INTERFACE 
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
    # Headers of single operators need it to be complete, and clang says so.
    $<$<CXX_COMPILER_ID:Clang>:SHELL:-include ATen/core/ivalue.h>)
endif()
if(DETENT_DEVELOPER)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
