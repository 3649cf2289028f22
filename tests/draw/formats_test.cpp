// Draws every registered algorithm in every format, and checks the contents.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>

#include "draw/formats.hpp"
#include "draw/picture.hpp"
#include "draw/words.hpp"

namespace kolo::draw {
namespace {

Picture picture_of(schedule::Collective collective, std::string_view name, int size,
                   std::vector<int> hosts = {}) {
  const algorithms::ConfiguredAlgorithm configured =
      algorithms::parse_algorithm(collective, name).value_or_throw();
  return make_picture(configured, {collective, 0, size, 0, configured.arguments, std::move(hosts)})
      .value_or_throw();
}

nlohmann::json data_in(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::size_t count(const std::string& in, const std::string& what) {
  std::size_t found = 0;
  for (auto at = in.find(what); at != in.npos; at = in.find(what, at + 1)) ++found;
  return found;
}

TEST(Formats, DrawEveryAlgorithm) {
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    for (const int size : {1, 2, 3, 5, 8}) {
      const std::string name = std::string(schedule::name_of(algorithm.collective)) + " " +
                               std::string(algorithm.name) + ", " + std::to_string(size) + " ranks";
      const auto picture = make_picture({&algorithm, {}}, {algorithm.collective, 0, size, size - 1, {}, {}});
      if (!picture.ok()) {
        EXPECT_FALSE(algorithms::supports(algorithm, {algorithm.collective, 0, size, size - 1, {}, {}}).ok())
            << name << ": " << picture.status().message();
        continue;
      }
      const std::size_t steps = picture.value().frames.steps();
      const nlohmann::json data = data_in(to_html(picture.value()));
      EXPECT_EQ(data.at("steps").size(), steps + 1) << name;
      EXPECT_EQ(data.at("places").size(), static_cast<std::size_t>(size)) << name;

      const std::string text = to_text(picture.value());
      EXPECT_EQ(count(text, "\nStep "), steps) << name;
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << name << ": " << line;

      const auto sheet = to_svg(picture.value());
      EXPECT_EQ(sheet.ok(), steps <= kMostSheetSteps) << name;
      if (sheet.ok()) {
        EXPECT_EQ(count(sheet.value(), "class='c'"), steps + 1) << name;
      }
    }
  }
}

TEST(Formats, TextOfARing) {
  const std::string text = to_text(picture_of(schedule::Collective::all_reduce, "ring", 3));
  EXPECT_NE(text.find("Step 2 of 4 (reduce-scatter, 2 of 2): 3 messages of 1 chunk, each to the next\n"
                      "rank; the receivers add. 3 of 9 results are complete.\n"
                      "  0 -> 1  + chunk 1   1 -> 2  + chunk 2   2 -> 0  + chunk 0\n"
                      "chunk   0    1    2\n"
                      "rank 0  012* 0.2  0..\n"
                      "rank 1  .1.  012* 01.\n"
                      "rank 2  .12  ..2  012*\n"),
            text.npos)
      << text;
}

TEST(Formats, ThePageTellsEveryChangeAndNoMore) {
  const Picture picture = picture_of(schedule::Collective::all_reduce, "ring", 4);
  const nlohmann::json data = data_in(to_html(picture));
  EXPECT_EQ(data.at("steps")[0].at("changes").size(), 16u);
  for (std::size_t step = 1; step <= 6; ++step) {
    EXPECT_EQ(data.at("steps")[step].at("changes").size(), 4u) << step;
    EXPECT_EQ(data.at("steps")[step].at("messages").size(), 4u) << step;
  }
}

TEST(Formats, TextInAPageEndsNoElement) {
  const std::string page = to_html(picture_of(schedule::Collective::all_reduce, "ring", 4));
  EXPECT_EQ(count(page, "</script>"), 2u);
  EXPECT_EQ(count(page, "@DATA@") + count(page, "@STYLE@") + count(page, "@SCRIPT@") +
                count(page, "@TITLE@") + count(page, "@LINKS@"),
            0u);
}

TEST(Formats, TellFormulasWithoutAPuzzle) {
  std::string text = to_text(picture_of(schedule::Collective::all_reduce, "halving_doubling", 6));
  std::ranges::replace(text, '\n', ' ');
  EXPECT_EQ(text.find("P = "), text.npos) << text;
  EXPECT_NE(
      text.find("Steps: 6, by the formula 2 log2 P (P: the largest power of two <= N); 2 more where N > P. "
                "Any"),
      text.npos)
      << text;
  EXPECT_NE(text.find("n: the bytes of the whole data"), text.npos) << text;
  EXPECT_EQ(text.find(" K"), text.npos) << text;
}

TEST(Formats, SheetsCutNoTextOffAndKnowDarkScreens) {
  const Picture picture = picture_of(schedule::Collective::all_reduce, "halving_doubling", 6);
  const std::string sheet = to_svg(picture).value_or_throw();
  EXPECT_EQ(sheet.find("..."), sheet.npos);
  EXPECT_NE(sheet.find("prefers-color-scheme:dark"), sheet.npos);
  EXPECT_EQ(sheet.find("var("), sheet.npos) << "rsvg-convert and Inkscape would paint it black";
  for (std::size_t step = 0; step < picture.frames.frames.size(); ++step) {
    std::istringstream words(step_in_words(picture, step));
    for (std::string word; words >> word;) {
      EXPECT_NE(sheet.find(word), sheet.npos) << word;
    }
  }
}

TEST(Formats, SayWhatIsTooMuch) {
  const algorithms::Algorithm* ring = algorithms::find_algorithm(schedule::Collective::all_reduce, "ring");
  const auto large = make_picture({ring, {}}, {schedule::Collective::all_reduce, 0, 65, 0, {}, {}});
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.status().message(), "65 ranks are too many to draw: 64 are the most");
  const auto sheet = to_svg(picture_of(schedule::Collective::all_reduce, "ring", 32));
  ASSERT_FALSE(sheet.ok());
  EXPECT_NE(sheet.status().message().find("62 steps are too many for one sheet: 40 are the most"),
            std::string::npos);
}

TEST(Formats, FramesAreThinnerThanTheCellsThatTheyAreRound) {
  const auto frame = [](int size) {
    const std::string sheet =
        to_svg(picture_of(schedule::Collective::all_reduce, "halving_doubling", size)).value_or_throw();
    const std::string before = "class='d' stroke-width='";
    const std::size_t at = sheet.find(before);
    return at == sheet.npos ? 0 : std::stod(sheet.substr(at + before.size()));
  };
  EXPECT_EQ(frame(2), 1.1);
  EXPECT_LT(frame(16), 0.8);
  EXPECT_LT(frame(64), 0.2);
  EXPECT_GT(frame(64), 0);
}

TEST(Formats, TextOfManyRanksHasASpaceAfterEachNumber) {
  const std::string text = to_text(picture_of(schedule::Collective::all_reduce, "double_tree", 16));
  EXPECT_NE(text.find("\nrank 9  1  "), text.npos) << text;
  EXPECT_NE(text.find("\nrank 10 1  "), text.npos) << text;
}

TEST(Formats, CardsOfWideTreesAreReadableAndTheirSheetsNoHigherThanPaper) {
  const std::tuple<schedule::Collective, const char*, int> cases[] = {
      {schedule::Collective::all_reduce, "double_tree", 16},
      {schedule::Collective::all_reduce, "k_nomial", 16},
      {schedule::Collective::all_reduce, "ring", 16},
      {schedule::Collective::broadcast, "binomial", 64}};
  for (const auto& [collective, name, size] : cases) {
    const std::string sheet = to_svg(picture_of(collective, name, size)).value_or_throw();
    const std::string cards = sheet.substr(sheet.find("class='c'"));
    EXPECT_GE(std::stod(cards.substr(cards.find('h') + 1)), 25) << name << " of " << size;
    const double width = std::stod(sheet.substr(sheet.find("width='") + 7));
    const double height = std::stod(sheet.substr(sheet.find("height='") + 8));
    EXPECT_LE(height, 1.5 * width) << name << " of " << size;
  }
}

TEST(Formats, HostsAreBoxes) {
  const Picture picture = picture_of(schedule::Collective::all_reduce, "ring", 8, {0, 0, 0, 1, 1, 2, 2, 2});
  EXPECT_EQ(data_in(to_html(picture)).at("boxes").size(), 3u);
  EXPECT_EQ(count(to_svg(picture).value_or_throw(), "class='h'"), 15u * 3);
}

}  // namespace
}  // namespace kolo::draw
