# kolo bench: its parts alone, then the program as a user runs it.
find_package(nlohmann_json REQUIRED)

set(bench_source ${PROJECT_SOURCE_DIR}/cli/bench)
kolo_test(test_bench_parts
          SOURCES bench_sizes_test.cpp bench_case_test.cpp bench_statistics_test.cpp bench_pattern_test.cpp
                  bench_noise_test.cpp bench_table_test.cpp bench_compare_test.cpp
                  ${bench_source}/case.cpp ${bench_source}/pattern.cpp ${bench_source}/noise.cpp ${bench_source}/row.cpp
                  ${bench_source}/sizes.cpp ${bench_source}/statistics.cpp ${bench_source}/table.cpp
                  ${bench_source}/json_lines.cpp ${PROJECT_SOURCE_DIR}/cli/text/columns.cpp
                  ${PROJECT_SOURCE_DIR}/cli/text/size.cpp
          LIBRARIES nlohmann_json::nlohmann_json
          LABELS unit)
target_include_directories(test_bench_parts PRIVATE ${PROJECT_SOURCE_DIR}/cli)

kolo_cli_test(test_bench_command SOURCES bench_command_test.cpp LIBRARIES nlohmann_json::nlohmann_json LABELS multiprocess
              TIMEOUT 180)
