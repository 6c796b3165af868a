include(GoogleTest)

get_property(sources GLOBAL PROPERTY DETENT_TESTS_SOURCES)
get_property(libraries GLOBAL PROPERTY DETENT_TESTS_LIBRARIES)
list(REMOVE_DUPLICATES libraries)
add_executable(detent_tests ${sources})
target_link_libraries(detent_tests PRIVATE ${libraries} GTest::gmock GTest::gtest_main detent_warnings)
target_compile_definitions(detent_tests PRIVATE DETENT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
gtest_discover_tests(detent_tests DISCOVERY_TIMEOUT 60)
