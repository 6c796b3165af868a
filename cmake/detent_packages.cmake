# Debian packages (`make deb`): the files that `make install` lays out, in parts.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME detent)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The developers of Detent <detent@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program engine engine_dev dev)
if(DETENT_TORCH)
  list(APPEND CPACK_COMPONENTS_ALL training)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Dependencies are those of the release that the packages are built on: dpkg-shlibdeps reads them from the libraries.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# detent_package(COMPONENT NAME SECTION SUMMARY TEXT)
macro(detent_package component name section summary text)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${text}")
endmacro()

detent_package(program detent science "quantizes neural networks"
  "Imports a network, quantizes it to any number format, evaluates, searches, exports and executes it.")
detent_package(training detent-training science "trains quantized neural networks"
  "What detent needs to train: quantization-aware training and fine-tuning, on libtorch.")
detent_package(engine libdetent-engine1 libs "runs quantized neural networks, from C"
  "The shared library that programs load networks with which detent quantized.")
detent_package(engine_dev libdetent-engine-dev libdevel "runs quantized neural networks, from C (development files)"
  "The header of the library, and its pkg-config file.")
detent_package(dev libdetent-dev libdevel "number formats, quantizers and graphs of Detent, for C++"
  "Static libraries, their headers, and the package that CMake finds.")

# Without a BLAS of its own libtorch trains 4 to 22 times slower. libcurl and libcrypto are loaded when something is
# downloaded or needs a digest, so that dpkg-shlibdeps does not see them.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libssl3t64 | libssl3")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "libcurl4t64 | libcurl4")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "detent-training")
set(CPACK_DEBIAN_TRAINING_PACKAGE_DEPENDS "detent (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TRAINING_PACKAGE_RECOMMENDS "libopenblas0-openmp | libopenblas0")
set(CPACK_DEBIAN_ENGINE_DEV_PACKAGE_DEPENDS "libdetent-engine1 (= ${PROJECT_VERSION})")
string(JOIN ", " dev_depends "libdetent-engine-dev (= ${PROJECT_VERSION})" libfmt-dev libspdlog-dev libhwy-dev
  libtomlplusplus-dev nlohmann-json3-dev zlib1g-dev libre2-dev libjpeg-dev libpng-dev libcurl4-openssl-dev libonnx-dev
  libprotobuf-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${dev_depends}")
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "libtorch-dev, libgloo-dev")
include(CPack)
