// Config: the environment of a process, read once. Each case runs in a child process of its own.
#include "base/config.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "kolo/error.hpp"

namespace kolo {
namespace {

using namespace std::chrono_literals;
using Environment = std::vector<std::pair<const char*, const char*>>;

constexpr const char* kVariables[] = {
    "KOLO_LOG",           "KOLO_TIMEOUT",      "KOLO_HEARTBEAT", "KOLO_TRANSPORTS", "KOLO_ALGORITHM",
    "KOLO_SEGMENT_BYTES", "KOLO_INTERFACE",    "KOLO_STORE",     "KOLO_KEY",        "KOLO_STORE_SERVED",
    "KOLO_SPIN_US",       "KOLO_KEY_FILE",     "KOLO_INSECURE",  "KOLO_TLS",        "KOLO_TLS_CERT",
    "KOLO_TLS_KEY",       "KOLO_TLS_CA",       "KOLO_WIRE",      "KOLO_METRICS",    "KOLO_TIMELINE",
    "KOLO_GPU",           "KOLO_NCCL_LIBRARY", "KOLO_JOIN",      "KOLO_PORTS"};

void set(const Environment& environment) {
  for (const char* name : kVariables) ::unsetenv(name);
  for (const auto& [name, value] : environment) ::setenv(name, value, 1);
}

/// The exit code of a child: 0 if `holds` is true for its configuration, else 1; 2, with the message, if the
/// configuration is refused.
template <typename Check>
[[noreturn]] void run_with(const Environment& environment, Check holds) {
  set(environment);
  try {
    std::_Exit(holds(config()) ? 0 : 1);
  } catch (const InvalidArgumentError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(2);
  }
}

template <typename Check>
void expect_config(const Environment& environment, Check holds) {
  EXPECT_EXIT(run_with(environment, holds), ::testing::ExitedWithCode(0), "");
}

void expect_refused(const char* name, const char* value) {
  EXPECT_EXIT(run_with({{name, value}}, [](const Config&) { return true; }), ::testing::ExitedWithCode(2),
              name)
      << value;
}

TEST(Config, DefaultsWithoutAnyVariable) {
  expect_config({}, [](const Config& c) {
    return c.log_level == "warn" && c.timeout == 300s && c.heartbeat == 5s && c.transports.empty() &&
           c.algorithm.empty() && c.segment_bytes == 524288 && c.interface.empty() && c.store.empty() &&
           !c.store_served && job_key().empty() && !c.insecure && !c.tls && c.tls_certificate.empty() &&
           c.spin_us == -1 && c.wire == Wire::native && c.metrics.empty() && c.timeline.empty() &&
           c.gpu == "auto" && c.nccl_library.empty() && c.join == "never";
  });
}

TEST(Config, EveryVariableIsHeeded) {
  expect_config({{"KOLO_LOG", "debug"},         {"KOLO_TIMEOUT", "2.5"},
                 {"KOLO_HEARTBEAT", "1.5"},     {"KOLO_TRANSPORTS", "tcp"},
                 {"KOLO_ALGORITHM", "ring"},    {"KOLO_SEGMENT_BYTES", "4096"},
                 {"KOLO_INTERFACE", "lo"},      {"KOLO_STORE", "file:///tmp/store"},
                 {"KOLO_STORE_SERVED", "1"},    {"KOLO_KEY", "secret"},
                 {"KOLO_INSECURE", "1"},        {"KOLO_TLS", "1"},
                 {"KOLO_TLS_CERT", "c.pem"},    {"KOLO_TLS_KEY", "k.pem"},
                 {"KOLO_TLS_CA", "a.pem"},      {"KOLO_SPIN_US", "0"},
                 {"KOLO_WIRE", "int8"},         {"KOLO_METRICS", "9400"},
                 {"KOLO_TIMELINE", "t"},        {"KOLO_GPU", "staged"},
                 {"KOLO_NCCL_LIBRARY", "n.so"}, {"KOLO_JOIN", "auto"},
                 {"KOLO_PORTS", "20000-20099"}},
                [](const Config& c) {
                  return c.log_level == "debug" && c.timeout == 2500ms && c.heartbeat == 1500ms &&
                         c.transports == "tcp" && c.algorithm == "ring" && c.segment_bytes == 4096 &&
                         c.interface == "lo" && c.store == "file:///tmp/store" && c.store_served &&
                         job_key() == "secret" && c.insecure && c.tls && c.tls_certificate == "c.pem" &&
                         c.tls_private_key == "k.pem" && c.tls_authority == "a.pem" && c.spin_us == 0 &&
                         c.wire == Wire::int8 && c.metrics == "9400" && c.timeline == "t" &&
                         c.gpu == "staged" && c.nccl_library == "n.so" && c.join == "auto" &&
                         c.ports.first == 20000 && c.ports.last == 20099;
                });
}

TEST(Config, IsReadOnce) {
  expect_config({{"KOLO_SPIN_US", "5"}}, [](const Config& c) {
    ::setenv("KOLO_SPIN_US", "6", 1);
    return c.spin_us == 5 && config().spin_us == 5 && &c == &config();
  });
}

TEST(Config, TheKeyIsReadApart) {
  for (const Environment& environment : {Environment{{"KOLO_KEY", "k"}, {"KOLO_KEY_FILE", "f"}},
                                         Environment{{"KOLO_KEY_FILE", "/no/such/file"}}}) {
    expect_config(environment, [](const Config& c) { return c.timeout == 300s; });
  }
}

TEST(Config, SettingsThatContradictEachOtherAreRefused) {
  const auto refused = [](const Environment& environment, const char* words) {
    EXPECT_EXIT(run_with(environment, [](const Config&) { return job_key().empty(); }),
                ::testing::ExitedWithCode(2), words);
  };
  refused({{"KOLO_KEY", "k"}, {"KOLO_KEY_FILE", "f"}}, "KOLO_KEY and KOLO_KEY_FILE");
  refused({{"KOLO_KEY_FILE", "/no/such/file"}}, "KOLO_KEY_FILE.*/no/such/file.*No such file");
  refused({{"KOLO_TLS", "1"}, {"KOLO_TLS_CERT", "c"}}, "KOLO_TLS_CERT, KOLO_TLS_KEY and KOLO_TLS_CA");
  refused({{"KOLO_TLS_CERT", "c"}, {"KOLO_TLS_KEY", "k"}, {"KOLO_TLS_CA", "a"}}, "KOLO_TLS is not 1");
}

TEST(Config, NonsenseIsRefusedByName) {
  for (const char* value : {"", "soon", "-1", "0", "1e30", "5s", "nan"})
    expect_refused("KOLO_TIMEOUT", value);
  for (const char* value : {"", "soon", "-1", "5s", "1e-7", "0.2"}) expect_refused("KOLO_HEARTBEAT", value);
  for (const char* value : {"", "63", "-1", "1.5", "4k", "99999999999999999999"}) {
    expect_refused("KOLO_SEGMENT_BYTES", value);
  }
  for (const char* value : {"", "2", "yes"}) expect_refused("KOLO_STORE_SERVED", value);
  for (const char* name : {"KOLO_INSECURE", "KOLO_TLS"}) expect_refused(name, "yes");
  for (const char* value : {"", "-2", "x", "1000001"}) expect_refused("KOLO_SPIN_US", value);
  for (const char* value : {"", "float32", "bf16", "INT8"}) expect_refused("KOLO_WIRE", value);
  for (const char* value : {"", "gloo", "NCCL"}) expect_refused("KOLO_GPU", value);
  for (const char* value : {"", "yes", "1"}) expect_refused("KOLO_JOIN", value);
  for (const char* value : {"20000", "20000-", "-20000", "2-1", "0-1", "20000-65536", "20000-20099x"})
    expect_refused("KOLO_PORTS", value);
  for (const char* value : {"", "verbose", "warning", "debug "}) expect_refused("KOLO_LOG", value);
}

TEST(Config, AHeartbeatOfZeroIsNever) {
  expect_config({{"KOLO_HEARTBEAT", "0"}}, [](const Config& c) { return c.heartbeat == 0s; });
  expect_config({{"KOLO_HEARTBEAT", "0.25"}}, [](const Config& c) { return c.heartbeat == 250ms; });
}

TEST(Config, LevelsOfTheLogAreTakenInAnyCase) {
  expect_config({{"KOLO_LOG", "INFO"}}, [](const Config& c) { return c.log_level == "info"; });
}

}  // namespace
}  // namespace kolo
