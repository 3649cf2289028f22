// The help of the program: pages, messages that suggest, manual pages, completions.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "transport/transport.hpp"

namespace kolo::test {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// All commands, as the page of kolo names them, and those below them.
std::vector<std::string> all_commands() {
  std::vector<std::string> names = {"plan step", "plan training", "trace merge"};
  std::istringstream page(run_kolo({"help"}).out);
  bool is_list = false;
  for (std::string line; std::getline(page, line);) {
    if (is_list && line.empty()) break;
    if (is_list && line.starts_with("  ") && line[2] != ' ') names.push_back(words_of(line).front());
    is_list = is_list || line == "Commands:";
  }
  return names;
}

void expect_narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Help, TheFirstPageTeaches) {
  const ProgramOutcome page = run_kolo({});
  EXPECT_EQ(page.code, 0);
  EXPECT_EQ(page.err, "");
  expect_narrow(page.out);
  for (const char* part : {"collective communication", "Commands:", "  run ", "  bench ",
                           "kolo run -n 4 -- ./train", "kolo help COMMAND"})
    EXPECT_TRUE(has(page.out, part)) << part << " in\n" << page.out;
  EXPECT_LE(std::ranges::count(page.out, '\n'), 40);
}

TEST(Help, EveryCommandHasAPageOfOneStyle) {
  const std::vector<std::string> commands = all_commands();
  EXPECT_GE(commands.size(), 16u);
  for (const std::string& command : commands) {
    std::vector<std::string> words = words_of(command);
    words.insert(words.begin(), "help");
    const ProgramOutcome page = run_kolo(words);
    EXPECT_EQ(page.code, 0) << command;
    expect_narrow(page.out);
    EXPECT_TRUE(has(page.out, "\nUsage: kolo " + command)) << page.out;
    EXPECT_TRUE(has(page.out, "\nExample")) << page.out;
    EXPECT_TRUE(has(page.out, "  kolo " + words_of(command).front())) << page.out;
    words.erase(words.begin());
    words.push_back("--help");
    EXPECT_EQ(run_kolo(words).out, page.out) << command;
  }
}

TEST(Help, TheMainPageHasTheExitCodes) {
  const ProgramOutcome page = run_kolo({"--help"});
  EXPECT_EQ(page.out, run_kolo({"help"}).out);
  expect_narrow(page.out);
  for (const char* part : {"Exit codes:", "  127 ", "  128+N ", "  255 ", "KiB"})
    EXPECT_TRUE(has(page.out, part)) << part;
  EXPECT_FALSE(has(page.out, "\n  man ")) << "for the build only";
}

TEST(Help, TheVersionIsToldInTwoWays) {
  const ProgramOutcome version = run_kolo({"version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(version.out.starts_with("kolo ")) << version.out;
  EXPECT_EQ(run_kolo({"--version"}).out, version.out);
}

TEST(Help, MessagesSuggestWhatWasMeant) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"hepl"}, "there is no command 'hepl'; did you mean 'help'?"},
      {{"allreduce"}, "did you mean 'kolo bench all_reduce'?"},
      {{"help", "plann"}, "kolo has no command 'plann'; did you mean 'plan'?"},
      {{"bench", "allreduce"}, "did you mean 'all_reduce'?"},
      {{"plan", "AllGather"}, "did you mean 'all_gather'?"},
      {{"draw", "bruck"}, "; all_to_all has one of that name: --collective all_to_all [K303]\n"},
      {{"draw", "chain:segments=2"},
       "; broadcast, reduce have one of that name: --collective broadcast, --collective reduce [K303]\n"},
      {{"draw", "doubling"}, "did you mean 'recursive_doubling' or 'halving_doubling'?"},
      {{"draw", "Ring"}, "did you mean 'ring'?"},
      {{"bench", "all_reduce", "--dtype", "bfloat"}, "did you mean 'bfloat16'?"},
      {{"check", "--rank", "3"}, "kolo check has no option --rank; did you mean '--ranks'?"},
      {{"check", "all_reduce", "ring", "more"}, "'more' is one argument too many for kolo check"},
      {{"plan", "all_reduce", "--no-such=1"},
       "kolo plan has no option --no-such (kolo plan --help tells more)"},
      {{"trace"}, "kolo trace needs a command: merge"},
      {{"run", "-n", "2", "--hosts", "a:2", "true"}, "--ranks and --hosts exclude each other"},
  };
  for (const auto& [arguments, message] : cases) {
    const ProgramOutcome outcome = run_kolo(arguments);
    EXPECT_EQ(outcome.code, 2) << message << "\n" << outcome.err;
    EXPECT_TRUE(has(outcome.err, message)) << message << " in " << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(List, HasAlgorithmsAndTransports) {
  const ProgramOutcome all = run_kolo({"list"});
  EXPECT_EQ(all.code, 0);
  expect_narrow(all.out);
  for (const char* part :
       {"all_reduce\n  ring ", "steps: 2(N-1)", "\nbroadcast\n", "\ntransports\n", "  shm "})
    EXPECT_TRUE(has(all.out, part)) << part;
  const ProgramOutcome one = run_kolo({"list", "broadcast"});
  EXPECT_TRUE(has(one.out, "  k_nomial "));
  EXPECT_FALSE(has(one.out, "all_reduce\n"));
  EXPECT_FALSE(has(one.out, "transports"));
  EXPECT_EQ(run_kolo({"list", "transports"}).out, all.out.substr(all.out.find("transports")));
  EXPECT_EQ(run_kolo({"list", "broadcsat"}).code, 2);
}

TEST(List, WritesJson) {
  std::istringstream lines(run_kolo({"list", "--json"}).out);
  int algorithms = 0, transports = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    ++(json.at("type") == "algorithm" ? algorithms : transports);
    EXPECT_FALSE(json.at("purpose").get<std::string>().empty());
  }
  EXPECT_GE(algorithms, 40);
  EXPECT_EQ(transports, std::ssize(kolo::transport::transport_factories()));
}

TEST(Json, GoesToAFileOrInPlaceOfTheText) {
  const TemporaryFolder folder;
  const std::string file = folder / "out.jsonl";
  const std::vector<std::vector<std::string>> commands = {
      {"check", "barrier", "tree", "--ranks", "4"},
      {"plan", "broadcast", "--ranks", "4"},
      {"plan", "step", "--bytes", "1MB", "--compute", "1ms", "--hosts", "2", "--rate", "1gbit"},
      {"precision", "ring", "--ranks", "4", "--count", "16"},
      {"list", "barrier"},
      {"bench", "barrier", "--ranks", "2", "--iterations", "2", "--transport", "inproc"}};
  const auto with = [](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  for (const std::vector<std::string>& command : commands) {
    const std::string name = command[0] + " " + command[1];
    const ProgramOutcome beside = run_kolo(with(command, {"--json", file}));
    EXPECT_EQ(beside.code, 0) << name << beside.err;
    EXPECT_FALSE(beside.out.empty() || beside.out.starts_with('{')) << name << ": the text is there, too";
    std::ifstream written(file);
    std::string line;
    ASSERT_TRUE(std::getline(written, line)) << name;
    EXPECT_TRUE(nlohmann::json::parse(line).is_object()) << name;
    for (const std::vector<std::string>& ending : {std::vector<std::string>{"--json"}, {"--json", "-"}}) {
      const ProgramOutcome instead = run_kolo(with(command, ending));
      EXPECT_EQ(instead.code, 0) << name << instead.err;
      EXPECT_FALSE(instead.out.empty()) << name;
      std::istringstream lines(instead.out);
      while (std::getline(lines, line)) EXPECT_TRUE(nlohmann::json::accept(line)) << name << ": " << line;
    }
    EXPECT_EQ(run_kolo(with(command, {"--json", "/nowhere/at/all.json"})).code, 1) << name;
  }
  EXPECT_TRUE(
      has(run_kolo({"check", "--json", "barrier", "tree", "--ranks", "2"}).out, "\"algorithm\":\"tree\""))
      << "what follows and is no file is the next argument";
}

TEST(Tables, FitATerminalUnlessTheyAreWide) {
  const std::vector<std::vector<std::string>> commands = {
      {"check", "--ranks", "8"},
      {"check", "all_reduce", "--ranks", "100"},
      {"check", "all_reduce", "--hosts", "3,2,3"},
      {"plan", "all_reduce", "--ranks", "8"},
      {"plan", "all_reduce", "--ranks", "64"},
      {"plan", "all_reduce", "--hosts", "4,4", "--bytes", "64M"},
      {"plan", "all_gather", "--hosts", "1,1,1,1"},
      {"plan", "step", "--bytes", "1.2GB", "--compute", "300ms", "--hosts", "10", "--rate", "9.6gbit"},
      {"precision", "--ranks", "2:3", "--count", "16", "--seeds", "1"}};
  for (std::vector<std::string> command : commands) {
    const ProgramOutcome narrow = run_kolo(command);
    EXPECT_EQ(narrow.code, 0) << narrow.err;
    expect_narrow(narrow.out);
    if (command.front() == "precision") continue;
    command.push_back("--wide");
    const ProgramOutcome wide = run_kolo(command);
    EXPECT_GT(wide.out.size(), narrow.out.size());
  }
}

/// "--json" of "  --json [FILE]", "--ranks" of "  -n, --ranks N".
std::vector<std::string> options_on(const std::string& page) {
  std::vector<std::string> options;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find("--");
    if (!line.starts_with("  -") || begin == line.npos) continue;
    options.push_back(line.substr(begin, line.find_first_of(" ,", begin) - begin));
  }
  return options;
}

/// Hyphens as a manual page has them.
std::string escaped(const std::string& option) {
  std::string text;
  for (const char c : option) text += c == '-' ? std::string("\\-") : std::string(1, c);
  return text;
}

TEST(Manual, HasAPageForEachCommand) {
  const TemporaryFolder folder;
  const ProgramOutcome outcome = run_kolo({"man", folder / "man"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> commands = all_commands();
  commands.push_back("");
  for (std::string command : commands) {
    std::string name = command.empty() ? "kolo" : "kolo-" + command;
    std::ranges::replace(name, ' ', '-');
    std::ifstream file(folder / "man/" + name + ".1");
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    for (const char* part :
         {".TH KOLO", "\n.SH NAME\nkolo", "\n.SH SYNOPSIS\n.B kolo", "\n.SH OPTIONS\n", "\\-\\-help"})
      EXPECT_TRUE(has(page, part)) << name << ": " << part;
    EXPECT_FALSE(has(page, "\\- kolo: ")) << name << ": whatis would name it twice";
    std::vector<std::string> help = words_of(command);
    help.push_back("--help");
    for (const std::string& option : options_on(run_kolo(help).out))
      EXPECT_TRUE(has(page, "\\fB\\-\\-" + escaped(option.substr(2)) + "\\fR")) << name << ": " << option;
    if (::access("/usr/bin/groff", X_OK) != 0) continue;
    const ProgramOutcome formatted =
        run_program({"groff", "-man", "-Tutf8", "-ww", folder / "man/" + name + ".1"});
    EXPECT_EQ(formatted.code, 0) << name;
    EXPECT_EQ(formatted.err, "") << name;
  }
}

/// What bash offers at the end of the line.
std::vector<std::string> offered(const std::string& line) {
  const std::string script =
      "PATH=$(dirname '" KOLO_PROGRAM "'):$PATH; source <(kolo completion bash); COMP_WORDS=(" + line +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kolo; printf '%s\\n' \"${COMPREPLY[@]}\"";
  const ProgramOutcome outcome = run_program({"bash", "-c", script});
  EXPECT_EQ(outcome.err, "") << line;
  return words_of(outcome.out);
}

bool offers(const std::string& line, const std::string& word) {
  const std::vector<std::string> words = offered(line);
  return std::ranges::find(words, word) != words.end();
}

TEST(Completion, OffersCommandsOptionsAndValuesInBash) {
  EXPECT_EQ(offered("kolo ben"), std::vector<std::string>{"bench"});
  EXPECT_TRUE(offers("kolo ''", "doctor"));
  EXPECT_FALSE(offers("kolo ''", "man")) << "hidden";
  EXPECT_EQ(offered("kolo bench --wid"), std::vector<std::string>{"--wide"});
  EXPECT_EQ(offered("kolo plan all_red"), std::vector<std::string>{"all_reduce"});
  EXPECT_TRUE(offers("kolo plan ''", "step"));
  EXPECT_TRUE(offers("kolo plan step --by", "--bytes"));
  EXPECT_EQ(offered("kolo plan all_reduce --links s"), std::vector<std::string>{"shm"});
  EXPECT_TRUE(offers("kolo draw --format ''", "svg"));
  EXPECT_EQ(offered("kolo draw hier"), std::vector<std::string>{"hierarchical"});
  EXPECT_EQ(offered("kolo draw --collective all_red"), std::vector<std::string>{"all_reduce"});
  EXPECT_TRUE(offers("kolo completion ''", "zsh"));
  EXPECT_TRUE(offers("kolo run --keep-going bas", "bash")) << "the program to run";
  EXPECT_EQ(offered("kolo bench --sizes ''"), std::vector<std::string>{}) << "any value";
}

TEST(Completion, IsReadByTheOtherShells) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const ProgramOutcome script = run_kolo({"completion", shell});
    EXPECT_EQ(script.code, 0) << shell;
    if (::access(("/usr/bin/" + std::string(shell)).c_str(), X_OK) != 0) continue;
    const TemporaryFolder folder;
    std::ofstream(folder / "script") << script.out;
    const ProgramOutcome read = run_program({shell, "-n", folder / "script"});
    EXPECT_EQ(read.code, 0) << shell << ": " << read.err;
    EXPECT_EQ(read.err, "") << shell;
  }
  EXPECT_EQ(run_kolo({"completion", "tcsh"}).code, 2);
}

TEST(Completion, SaysWhatEachOfferMeans) {
  const auto offers = [](std::vector<std::string> words) {
    words.insert(words.begin(), "complete");
    return run_kolo(words).out;
  };
  EXPECT_TRUE(has(offers({""}), "\ndoctor\tFind what keeps ranks from working together\n"));
  EXPECT_EQ(offers({"plan", "st"}),
            "step\tTime a training step with a parameter server, a driver, a ring and others\n");
  EXPECT_EQ(offers({"plan", "step", "--json", ""}), ":files\n");
  EXPECT_EQ(offers({"plan", "step", "--bytes", "1"}), "") << "any value";
  EXPECT_EQ(offers({"run", "-n", "4", "--", "./tr"}), ":program\t5\n");
  EXPECT_EQ(offers({"run", "-n", "4", "--", "./train", "--ep"}), ":program\t5\n") << "its own options";
}

TEST(Completion, IsOfferedByFish) {
  if (::access("/usr/bin/fish", X_OK) != 0) GTEST_SKIP() << "there is no fish";
  const ProgramOutcome outcome = run_program(
      {"fish", "-c",
       "set PATH (dirname '" KOLO_PROGRAM "') $PATH; kolo completion fish | source; complete -C 'kolo ben'"});
  EXPECT_EQ(outcome.out, "bench\tTime a collective, verify it, compare with others\n") << outcome.err;
}

}  // namespace
}  // namespace kolo::test
