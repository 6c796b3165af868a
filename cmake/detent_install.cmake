# Installs the program, the libraries with their headers, and the package that find_package(detent) finds. Components are
# what packages are made of (detent_packages.cmake): program, training, engine, engine_dev (of C) and dev (of C++).
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/detent)

# detent_install_layers(EXPORT-NAME LAYER...)
function(detent_install_layers export)
  foreach(layer IN LISTS ARGN)
    install(TARGETS detent_${layer} EXPORT ${export} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/detent/${layer}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/detent COMPONENT dev
      FILES_MATCHING PATTERN "*.h" PATTERN "*-inl.h" EXCLUDE PATTERN "*_test*.h" EXCLUDE)
  endforeach()
  # Headers of families of operators belong to several layers.
  set(operators FILES_MATCHING PATTERN "*.h" PATTERN "autograd*" EXCLUDE)
  if(autograd IN_LIST ARGN)
    set(operators FILES_MATCHING PATTERN "autograd*.h")
  endif()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/detent/operators
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/detent COMPONENT dev ${operators})
  install(EXPORT ${export} NAMESPACE detent:: DESTINATION ${package_folder} COMPONENT dev)
endfunction()

install(TARGETS detent_engine_c EXPORT detentTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT engine NAMELINK_COMPONENT engine_dev)
install(FILES ${PROJECT_SOURCE_DIR}/include/detent/engine.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/detent
  COMPONENT engine_dev)
# For programs in C that are not built by CMake; it says where it is itself, so that a tree may be moved.
set(pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pkgconfig_folder}
  OUTPUT_VARIABLE detent_pc_to_prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/detent_engine.pc.in ${PROJECT_BINARY_DIR}/package/detent_engine.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/detent_engine.pc DESTINATION ${pkgconfig_folder} COMPONENT engine_dev)
get_property(layers GLOBAL PROPERTY DETENT_LAYERS)
detent_install_layers(detentTargets ${layers})
get_property(torch_layers GLOBAL PROPERTY DETENT_TORCH_LAYERS)
if(torch_layers)
  install(TARGETS detent_libtorch EXPORT detentTorchTargets COMPONENT dev)
  detent_install_layers(detentTorchTargets ${torch_layers})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/detentConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/detentConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/detentConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/detentConfig.cmake ${PROJECT_BINARY_DIR}/package/detentConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

if(TARGET detent_program)
  install(TARGETS detent_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  file(CREATE_LINK detent ${PROJECT_BINARY_DIR}/bin/ch SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/bin/ch DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/stat-to-conf.py DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  # The program writes its manual page and completions itself.
  set(share ${PROJECT_BINARY_DIR}/share)
  install(CODE "
    file(MAKE_DIRECTORY ${share})
    foreach(page \"detent.1 man\" \"detent completion bash\" \"_detent completion zsh\")
      separate_arguments(page)
      list(POP_FRONT page name)
      execute_process(COMMAND ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/detent \${page} OUTPUT_FILE ${share}/\${name} COMMAND_ERROR_IS_FATAL ANY)
    endforeach()" COMPONENT program)
  install(FILES ${share}/detent.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${share}/detent DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
  install(FILES ${share}/detent DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program
    RENAME ch)
  install(FILES ${share}/_detent DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
endif()
if(TARGET detent_torch)
  # Not a library to link, so not beside those: the program loads it from ../lib/detent.
  install(TARGETS detent_torch LIBRARY DESTINATION lib/detent COMPONENT training)
endif()
