# Every library the project uses, from the distribution's packages (scripts/install_packages.sh).

# Where this is a part of another project, that project must see the targets its own targets come to link.
if(NOT PROJECT_IS_TOP_LEVEL)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
endif()

# What the torch-free libraries link, so that detentConfig.cmake looks for the same.
set(detent_packages Threads fmt spdlog hwy nlohmann_json tomlplusplus ZLIB)
foreach(package IN LISTS detent_packages)
  find_package(${package} REQUIRED)
endforeach()
find_package(CLI11 REQUIRED)
if(DETENT_TORCH)
  find_package(Torch REQUIRED)
endif()
if(DETENT_DEVELOPER)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
