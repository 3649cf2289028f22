// What all commands share: sizes, tables, JSON lines, progress, and arguments that CLI11 would misread.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "bench/progress.hpp"
#include "options.hpp"
#include "support/temporary_folder.hpp"
#include "text/columns.hpp"
#include "text/json_lines.hpp"
#include "text/size.hpp"

namespace kolo::cli {
namespace {

TEST(Size, IsReadAsGnuProgramsReadIt) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("8"), 8u);
  EXPECT_EQ(parse_size("8B"), 8u);
  for (const char* text : {"64K", "64k", "64Ki", "64KiB", "64kib", "65536"})
    EXPECT_EQ(parse_size(text), 65536u) << text;
  EXPECT_EQ(parse_size("64KB"), 64'000u);
  EXPECT_EQ(parse_size("1.5M"), 3u << 19);
  EXPECT_EQ(parse_size("1.2GB"), 1'200'000'000u);
  EXPECT_EQ(parse_size("1T"), std::uint64_t{1} << 40);
  EXPECT_EQ(parse_size("1.3K"), 1331u) << "rounded to whole bytes";
}

TEST(Size, OtherTextsAreRefused) {
  for (const char* text : {"", "K", "8Q", "-8", " 8", "8 K", "1e3", "nan", "inf", "8KK", "8iB", "2000T"})
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
}

TEST(Size, IsWrittenInTheLargestUnit) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1 KiB");
  EXPECT_EQ(format_size(1792), "1.75 KiB");
  EXPECT_EQ(format_size(1'835'008), "1.75 MiB");
  EXPECT_EQ(format_size(64u << 20), "64 MiB");
  EXPECT_EQ(format_size((std::uint64_t{1} << 30) - 1), "1024 MiB");
  EXPECT_EQ(format_size(std::uint64_t{5} << 50), "5120 TiB");
}

std::string heading_at(std::size_t width) {
  return TableLayout({{"name", "", 8, true}, {"a", "us", 6}, {"b", "", 6, false, 2}, {"c", "", 6, false, 1}},
                     width)
      .heading();
}

TEST(TableLayout, LeavesOutDetailsUntilALineFits) {
  EXPECT_EQ(heading_at(26), "# name       a     b     c\n#           us\n");
  EXPECT_EQ(heading_at(25), "# name       a     c\n#           us\n");
  EXPECT_EQ(heading_at(19), "# name       a\n#           us\n");
  EXPECT_EQ(heading_at(1), heading_at(19)) << "columns without detail stay";
}

TEST(TableLayout, ColumnsAreAsWideAsTheirCells) {
  EXPECT_EQ(table({{"name", "", 0, true}, {"value"}}, {{"a", "1"}, {"longer", "123456789"}}, kAnyWidth),
            "# name        value\n"
            "  a               1\n"
            "  longer  123456789\n");
}

TEST(Text, IsWrappedAndShortened) {
  EXPECT_EQ(wrapped("one two three", 9, "- ", "  "), "- one two\n  three\n");
  EXPECT_EQ(shortened("double_tree", 11), "double_tree");
  EXPECT_EQ(shortened("double_tree", 10), "double_t..");
}

TEST(JsonLines, GoToAFileBesideTheText) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "lines";
  std::ofstream(path) << "old\n";
  {
    JsonLines json(path);
    EXPECT_FALSE(json.replaces_text());
    json.write("{}");
    JsonLines(path, true).write("1");  // of another program, meanwhile
    json.write("[]");
  }
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "{}\n1\n[]\n");
  EXPECT_TRUE(JsonLines("-").replaces_text());
  EXPECT_FALSE(JsonLines("").replaces_text());
  EXPECT_THROW(JsonLines("/nowhere/at/all.jsonl"), std::runtime_error);
  JsonLines("").write("swallowed");
}

TEST(Arguments, AreRewrittenForCli11) {
  const auto normalized = [](std::vector<std::string> arguments) {
    normalize(arguments);
    return arguments;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(normalized({"bench", "-np", "4"}), (Words{"bench", "-n", "4"}));
  EXPECT_EQ(normalized({"check", "--json"}), (Words{"check", "--json=-"}));
  EXPECT_EQ(normalized({"check", "--json", "-"}), (Words{"check", "--json=-"}));
  EXPECT_EQ(normalized({"check", "--json", "all_reduce"}), (Words{"check", "--json=-", "all_reduce"}));
  EXPECT_EQ(normalized({"check", "--json", "--wide"}), (Words{"check", "--json=-", "--wide"}));
  EXPECT_EQ(normalized({"check", "--json", "out.jsonl", "ring"}),
            (Words{"check", "--json=out.jsonl", "ring"}));
  EXPECT_EQ(normalized({"check", "--json", "./out"}), (Words{"check", "--json=./out"}));
  EXPECT_EQ(normalized({"check", "--json=out"}), (Words{"check", "--json=out"}));
}

TEST(Progress, TellsTheTimeLeft) {
  EXPECT_EQ(bench::time_left(0, 10), "") << "nothing is known yet";
  EXPECT_EQ(bench::time_left(0.5, 60), "50 %, 60 s left");
  EXPECT_EQ(bench::time_left(0.25, 240), "25 %, 12 min left");
  EXPECT_EQ(bench::time_left(0.1, 1200), "10 %, 3.0 h left");
  EXPECT_EQ(bench::time_left(1, 60), "100 %, 0 s left");
}

TEST(Progress, IsOneLineOfATerminal) {
  ::testing::internal::CaptureStderr();
  bench::Progress(true, {1, 4, 60}).show("64 KiB: " + std::string(100, 'x'), 0.5);
  bench::Progress(false).show("nothing", 0.5);
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find(" %, 2 min left; part 2 of 4: 64 KiB: xxx"), std::string::npos) << line;
  EXPECT_LT(line.size(), std::string("\r\x1b[K").size() + kTerminalWidth);
  EXPECT_EQ(line.find("nothing"), std::string::npos);
}

TEST(Progress, PartsAreToldToThePrograms) {
  const bench::Part part = bench::Part::parse(bench::Part{3, 8, 120.25}.to_text());
  EXPECT_EQ(part.number, 3);
  EXPECT_EQ(part.count, 8);
  EXPECT_NEAR(part.seconds, 120.25, 0.1);
  for (const char* text : {"", "8/8/1", "-1/8/1", "1/8", "nothing"}) {
    EXPECT_EQ(bench::Part::parse(text).number, 0) << text;
    EXPECT_EQ(bench::Part::parse(text).count, 1) << text;
  }
}

}  // namespace
}  // namespace kolo::cli
