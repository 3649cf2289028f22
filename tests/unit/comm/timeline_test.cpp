// A timeline is valid JSON whatever the names are.
#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace kolo
