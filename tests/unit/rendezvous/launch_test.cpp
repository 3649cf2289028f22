// The variables of every launcher, and invalid values of them.
#include "rendezvous/launch.hpp"

#include <gtest/gtest.h>

#include <map>

#include "rendezvous/meeting.hpp"
#include "rendezvous/slurm.hpp"

namespace kolo {
namespace {

using Variables = std::map<std::string, std::string>;

rendezvous::Lookup lookup_in(const Variables& variables) {
  return [variables](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional<std::string>(at->second);
  };
}

void expect_launch(const Variables& variables, const std::string& launcher, int rank, int size,
                   int local_rank, int local_size) {
  const Launch launch = rendezvous::read_launch(lookup_in(variables)).value_or_throw();
  EXPECT_EQ(launch.launcher, launcher);
  EXPECT_EQ(launch.rank, rank);
  EXPECT_EQ(launch.size, size);
  EXPECT_EQ(launch.local_rank, local_rank);
  EXPECT_EQ(launch.local_size, local_size);
}

void expect_error(const Variables& variables, const std::string& name) {
  const Status status = rendezvous::read_launch(lookup_in(variables)).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find(name), std::string::npos) << status.message() << " does not name " << name;
}

const Variables kTorchrun = {
    {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "6"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                            {"PMIX_NAMESPACE", "1593835521"}};
const Variables kMpich = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kSlurm = {{"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "4"},
                          {"SLURM_NTASKS", "5"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                          {"SLURM_JOB_NODELIST", "node[01-03]"},
                          {"SLURM_LAUNCH_NODE_IPADDR", "10.9.8.7"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(Launch, ReadsEachLauncher) {
  expect_launch({}, "none", 0, 1, 0, 1);
  expect_launch(kTorchrun, "torchrun", 5, 8, 1, 4);
  expect_launch({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "torchrun", 1, 2, 0, 1);
  expect_launch(kOpenMpi, "Open MPI", 2, 6, 2, 3);
  expect_launch(kMpich, "MPICH", 1, 2, 1, 2);
  expect_launch({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, "MPICH", 0, 1, 0, 1);
  expect_launch(kSlurm, "Slurm", 4, 5, 0, 1);
}

TEST(Launch, TheInnermostLauncherWins) {
  Variables all = kSlurm;
  all.insert(kOpenMpi.begin(), kOpenMpi.end());
  expect_launch(all, "Open MPI", 2, 6, 2, 3);
  all.insert(kTorchrun.begin(), kTorchrun.end());
  expect_launch(all, "torchrun", 5, 8, 1, 4);
}

TEST(Launch, SlurmSpeakingPmiTellsTheRestItself) {
  Variables both = kSlurm;
  both["PMI_RANK"] = "4";
  both["PMI_SIZE"] = "5";
  expect_launch(both, "MPICH", 4, 5, 0, 1);
}

TEST(Launch, OnlyAStepOfSlurmIsAJob) {
  expect_launch(without(kSlurm, "SLURM_STEP_ID"), "none", 0, 1, 0, 1);
  expect_launch(with(kSlurm, "SLURM_STEP_ID", "4294967291"), "none", 0, 1, 0, 1);  // a batch script
  expect_launch(with(kSlurm, "SLURM_STEP_ID", "4294967290"), "none", 0, 1, 0, 1);  // an interactive shell
}

TEST(Launch, ErrorsNameTheVariable) {
  for (const Variables& launcher : {kTorchrun, kOpenMpi, kMpich}) {
    for (const auto& [name, value] : launcher) {
      if (name == "PMIX_NAMESPACE") continue;
      expect_error(without(launcher, name), name);
      expect_error(with(launcher, name, "-1"), name);
      expect_error(with(launcher, name, "two"), name);
      expect_error(with(launcher, name, ""), name);
      expect_error(with(launcher, name, "99999999999"), name);
    }
  }
  for (const char* name : {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}) {
    expect_error(with(kSlurm, name, "x"), name);
  }
  for (const char* name : {"SLURM_NTASKS", "SLURM_LOCALID"}) expect_error(without(kSlurm, name), name);
  expect_error(with(kTorchrun, "WORLD_SIZE", "65537"), "WORLD_SIZE=65537 must be at most 65536");
  expect_error(with(kTorchrun, "RANK", "8"), "RANK");
  expect_error(with(kTorchrun, "LOCAL_RANK", "4"), "LOCAL_RANK");
  expect_error(with(kSlurm, "SLURM_TASKS_PER_NODE", "2(x"), "SLURM_TASKS_PER_NODE");
}

TEST(Slurm, FirstHostOfAList) {
  const std::vector<std::pair<std::string, std::string>> good = {{"node1", "node1"},
                                                                 {"a,b", "a"},
                                                                 {"node[01-04,7]", "node01"},
                                                                 {"node[7,01-04]", "node7"},
                                                                 {"n[1-2]-ib,x", "n1-ib"},
                                                                 {"r[0-1]n[10-12]", "r0n10"},
                                                                 {"gpu-a[003],b[1-2]", "gpu-a003"}};
  for (const auto& [list, host] : good) EXPECT_EQ(rendezvous::first_slurm_host(list), host) << list;
  for (const char* bad : {"", ",", "node[", "node[]", "node[a-b]", "node]", "[-3]"}) {
    EXPECT_EQ(rendezvous::first_slurm_host(bad), std::nullopt) << bad;
  }
}

TEST(Slurm, TasksOfANode) {
  EXPECT_EQ(rendezvous::slurm_tasks_on_node("4", 0), 4);
  EXPECT_EQ(rendezvous::slurm_tasks_on_node("2(x3),1", 2), 2);
  EXPECT_EQ(rendezvous::slurm_tasks_on_node("2(x3),1", 3), 1);
  EXPECT_EQ(rendezvous::slurm_tasks_on_node("2(x3),1", 4), std::nullopt);
  for (const char* bad : {"", "x", "2(x", "2(x)", "0", "2(x-1)", ","}) {
    EXPECT_EQ(rendezvous::slurm_tasks_on_node(bad, 0), std::nullopt) << bad;
  }
}

Result<rendezvous::Meeting> plan(const Variables& variables, const Config& config = {},
                                 const std::string& key = "") {
  const rendezvous::Lookup lookup = lookup_in(variables);
  return rendezvous::plan_meeting(rendezvous::read_launch(lookup).value_or_throw(), config, key, lookup);
}

TEST(Meeting, ASingleProcessMeetsNobody) {
  EXPECT_EQ(plan({}).value_or_throw().kind, rendezvous::Meeting::Kind::memory);
}

TEST(Meeting, MasterAddrWhereRankZeroServes) {
  Variables variables = with(with(kTorchrun, "MASTER_ADDR", "node1"), "MASTER_PORT", "29500");
  rendezvous::Meeting meeting = plan(variables, {}, "secret").value_or_throw();
  EXPECT_EQ(meeting.kind, rendezvous::Meeting::Kind::tcp);
  EXPECT_EQ(meeting.address.host, "node1");
  EXPECT_EQ(meeting.address.port, 29500);
  EXPECT_EQ(meeting.address.ports, 1);
  EXPECT_EQ(meeting.address.credentials.key, "secret");
  EXPECT_FALSE(meeting.serve);
  EXPECT_FALSE(meeting.one_host);
  EXPECT_TRUE(plan(with(variables, "RANK", "0")).value_or_throw().serve);

  const auto bracketed = plan(with(variables, "MASTER_ADDR", "[fd88::1]"), {}, "secret").value_or_throw();
  EXPECT_EQ(bracketed.address.host, "fd88::1");
  for (const char* port : {"", "0", "65536", "x", "-1"}) {
    EXPECT_NE(plan(with(variables, "MASTER_PORT", port)).status().message().find("MASTER_PORT"),
              std::string::npos);
  }
  EXPECT_NE(plan(without(variables, "MASTER_PORT")).status().message().find("MASTER_PORT"),
            std::string::npos);
}

TEST(Meeting, BesideTorchrunsOwnStore) {
  Variables variables = with(with(kTorchrun, "MASTER_ADDR", "node1"), "MASTER_PORT", "29500");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RUN_ID"] = "job";
  const rendezvous::Meeting meeting = plan(variables).value_or_throw();
  EXPECT_EQ(meeting.address.port, 29501);
  EXPECT_EQ(meeting.address.ports, 16);
  EXPECT_EQ(plan(with(variables, "RANK", "0")).value_or_throw().address.credentials.job,
            meeting.address.credentials.job);
  EXPECT_NE(plan(with(variables, "TORCHELASTIC_RUN_ID", "other")).value_or_throw().address.credentials.job,
            meeting.address.credentials.job);
  EXPECT_NE(plan(with(variables, "TORCHELASTIC_RESTART_COUNT", "1")).value_or_throw().address.credentials.job,
            meeting.address.credentials.job);
  EXPECT_EQ(plan(variables, {}, "secret").value_or_throw().address.credentials.key, "secret");
}

TEST(Meeting, WithoutAKeyOneHostMeetsOnLoopback) {
  Variables variables = with(with(kTorchrun, "MASTER_ADDR", "node1"), "MASTER_PORT", "29500");
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = "8";
  EXPECT_EQ(plan(variables).value_or_throw().address.host, "127.0.0.1");
  EXPECT_EQ(plan(variables, {}, "secret").value_or_throw().address.host, "node1");
  Config config;
  config.insecure = true;
  EXPECT_EQ(plan(variables, config).value_or_throw().address.host, "node1");
  EXPECT_EQ(plan(with(variables, "LOCAL_WORLD_SIZE", "4")).value_or_throw().address.host, "node1");
}

TEST(Meeting, EncryptionNeedsAKey) {
  Variables variables = with(with(kTorchrun, "MASTER_ADDR", "node1"), "MASTER_PORT", "29500");
  Config config;
  config.tls = true;
  EXPECT_NE(plan(variables, config).status().message().find("KOLO_KEY"), std::string::npos);
  EXPECT_TRUE(plan(variables, config, "secret").value_or_throw().address.credentials.tls);
}

TEST(Meeting, KoloStoreComesFirst) {
  Variables variables = with(with(kTorchrun, "MASTER_ADDR", "node1"), "MASTER_PORT", "29500");
  variables["RANK"] = "0";
  Config config;
  config.store = "tcp://[::1]:4000";
  rendezvous::Meeting meeting = plan(variables, config).value_or_throw();
  EXPECT_EQ(meeting.address.host, "::1");
  EXPECT_EQ(meeting.address.port, 4000);
  EXPECT_TRUE(meeting.serve);
  config.store_served = true;
  EXPECT_FALSE(plan(variables, config).value_or_throw().serve);
  config.store = "file:///tmp/job";
  meeting = plan(variables, config).value_or_throw();
  EXPECT_EQ(meeting.kind, rendezvous::Meeting::Kind::file);
  EXPECT_EQ(meeting.path, "/tmp/job");
  for (const char* bad : {"tcp://", "tcp://host", "tcp://:1", "tcp://host:x", "file://x", "http://a:1",
                          "host:1", "tcp://fd00::1", "tcp://fd00::1:4000", "tcp://[fd00::1]"}) {
    config.store = bad;
    EXPECT_NE(plan(variables, config).status().message().find("KOLO_STORE"), std::string::npos) << bad;
  }
}

TEST(Meeting, OneHostNeedsNoAddress) {
  const Variables one = with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "6");
  const rendezvous::Meeting meeting = plan(one).value_or_throw();
  EXPECT_EQ(meeting.address.host, "127.0.0.1");
  EXPECT_GE(meeting.address.port, 20'000);
  EXPECT_LT(meeting.address.port + meeting.address.ports, 32'768);
  const rendezvous::Meeting same = plan(with(one, "OMPI_COMM_WORLD_RANK", "0")).value_or_throw();
  EXPECT_TRUE(same.serve);
  EXPECT_EQ(same.address.port, meeting.address.port);
  EXPECT_EQ(same.address.credentials.job, meeting.address.credentials.job);
  EXPECT_NE(plan(with(one, "PMIX_NAMESPACE", "2")).value_or_throw().address.credentials.job,
            meeting.address.credentials.job);
}

TEST(Meeting, SeveralHostsMeetAtSlurmsFirstOrAreToldWhatToSet) {
  EXPECT_EQ(plan(kSlurm).value_or_throw().address.host, "node01");
  EXPECT_EQ(plan(without(kSlurm, "SLURM_JOB_NODELIST")).value_or_throw().address.host, "10.9.8.7");
  EXPECT_NE(plan(kOpenMpi).status().message().find("MASTER_ADDR"), std::string::npos);
  EXPECT_NE(plan(kTorchrun).status().message().find("MASTER_ADDR"), std::string::npos);
}

}  // namespace
}  // namespace kolo
