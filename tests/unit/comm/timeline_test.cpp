// A timeline is valid JSON for any names.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kolo/timeline.hpp"

namespace kolo {
namespace {

/// Every quote that is not escaped opens or closes a string; outside of strings brackets match; inside there
/// is no control character.
bool well_formed(const std::string& text) {
  bool inside = false;
  std::string open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c == '\\') {
        if (++i == text.size() || std::string("\"\\/bfnrtu").find(text[i]) == std::string::npos) return false;
      } else if (c == '"') {
        inside = false;
      }
    } else if (c == '"') {
      inside = true;
    } else if (c == '{' || c == '[') {
      open.push_back(c == '{' ? '}' : ']');
    } else if (c == '}' || c == ']') {
      if (open.empty() || open.back() != c) return false;
      open.pop_back();
    }
  }
  return !inside && open.empty();
}

TEST(Timeline, AwkwardNamesStayInsideTheirQuotes) {
  Timeline timeline;
  const auto now = std::chrono::steady_clock::now();
  for (const char* name :
       {"plain", "a \"quoted\" name", "back\\slash", "ends with \\", "line\nbreak\t", "}]{[", ""}) {
    timeline.span(name, name, now, now + std::chrono::microseconds(5), "\"bytes\":1");
    timeline.span(name, "lane", now, now);
  }
  EXPECT_EQ(timeline.size(), 14u);
  const std::string events = timeline.chrome_events(3);
  EXPECT_TRUE(well_formed("[" + events + "]")) << events;
  EXPECT_NE(events.find("a \\\"quoted\\\" name"), std::string::npos);
  EXPECT_NE(events.find("line\\u000abreak\\u0009"), std::string::npos);
  EXPECT_EQ(events.find(",,"), std::string::npos);
}

TEST(Timeline, BytesThatAreNotUtf8AreReplaced) {
  const std::string mark = "\xef\xbf\xbd";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x98\x80", "sch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xff|", mark + "|"},
      {"cut \xe2\x82", "cut " + mark + mark},
      {"\xc3(", mark + "("},
      {"\xc0\xaf", mark + mark},                       // overlong encoding
      {"\xe0\x80\xaf", mark + mark + mark},            // overlong encoding
      {"\xed\xa0\x80", mark + mark + mark},            // half of a surrogate pair
      {"\xf4\x90\x80\x80", mark + mark + mark + mark}  // beyond the last code point
  };
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [given, shown] : cases) {
    Timeline timeline;
    timeline.span(given, "lane", now, now, "\"word\":\"" + given + "\"");
    const std::string events = timeline.chrome_events(0);
    EXPECT_NE(events.find("\"name\":\"" + shown + "\""), std::string::npos) << events;
    EXPECT_NE(events.find("\"word\":\"" + shown + "\""), std::string::npos) << events;
  }
}

}  // namespace
}  // namespace kolo
