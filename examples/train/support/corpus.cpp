#include "support/corpus.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <unordered_set>

#include "support/gzip_file.hpp"

namespace support {
namespace {

constexpr std::size_t kMinBytes = 20'000;
constexpr std::size_t kMaxHeldOut = 1'000'000;
/// Definitions begin at the fourth column; their later lines are indented further.
constexpr std::size_t kDefinitionIndent = 4;

/// With its line feed.
std::string_view first_line(std::string_view text) {
  const std::size_t end = text.find('\n');
  return end == std::string_view::npos ? text : text.substr(0, end + 1);
}

/// An entry's first line and the indented ones after it.
std::string_view first_entry(std::string_view text) {
  std::size_t end = first_line(text).size();
  while (end < text.size() && text[end] == ' ') end += first_line(text.substr(end)).size();
  return text.substr(0, end);
}

/// Where the first entry after `from` begins; `from` itself where there is none.
std::size_t next_entry(std::string_view text, std::size_t from) {
  for (std::size_t at = from + 1; at < text.size(); ++at) {
    if (text[at - 1] == '\n' && text[at] != ' ') return at;
  }
  return from;
}

/// What a line says after a mark like "n 1:" or "2:"; empty where it has none.
std::string_view after_mark(std::string_view line) {
  if (line.find_first_not_of(' ') != kDefinitionIndent) return {};
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view mark = line.substr(kDefinitionIndent, colon - kDefinitionIndent);
  const bool is_mark = std::ranges::all_of(mark, [](unsigned char letter) {
    return std::islower(letter) != 0 || std::isdigit(letter) != 0 || letter == ' ';
  });
  return is_mark ? line.substr(colon + 1) : std::string_view{};
}

/// One space wherever there are some, or a line ends.
void append_words(std::string& text, std::string_view line) {
  bool is_space = true;
  for (const char letter : line) {
    if (letter == ' ' || letter == '\n') {
      is_space = true;
      continue;
    }
    if (is_space && !text.empty()) text += ' ';
    is_space = false;
    text += letter;
  }
}

void for_each_definition(std::string_view entry, const std::function<void(const std::string&)>& use) {
  std::string definition;
  const auto end = [&] {
    if (!definition.empty()) use(definition);
    definition.clear();
  };
  for (std::size_t at = first_line(entry).size(); at < entry.size();) {
    const std::string_view line = first_line(entry.substr(at));
    at += line.size();
    if (const std::string_view text = after_mark(line); !text.empty()) {
      end();
      append_words(definition, text);
    } else {
      append_words(definition, line);
    }
  }
  end();
}

void for_each_entry(std::string_view text, const std::function<void(std::string_view)>& use) {
  while (!text.empty()) {
    const std::string_view entry = first_entry(text);
    use(entry);
    text.remove_prefix(entry.size());
  }
}

}  // namespace

Corpus read_corpus(const std::string& path) {
  std::string text = GzipFile(path, path == kDictionary ? "dict-wn" : "").read_all();
  if (text.empty()) throw std::runtime_error(path + " is empty");
  if (text.size() < kMinBytes) {
    throw std::runtime_error(path + " holds " + std::to_string(text.size()) + " bytes, fewer than the " +
                             std::to_string(kMinBytes) + " that it takes to learn from");
  }
  const std::size_t cut = next_entry(text, text.size() - std::min(kMaxHeldOut, text.size() / 10));
  std::unordered_set<std::string> known;
  Corpus corpus;
  const std::string_view all = text;
  for_each_entry(all.substr(0, cut), [&](std::string_view entry) {
    for_each_definition(entry, [&](const std::string& definition) { known.insert(definition); });
  });
  for_each_entry(all.substr(cut), [&](std::string_view entry) {
    bool is_known = false;
    for_each_definition(entry,
                        [&](const std::string& definition) { is_known |= known.contains(definition); });
    if (!is_known) corpus.held_out += entry;
  });
  if (corpus.held_out.empty())
    throw std::runtime_error(path + " has nothing to hold out that is not repeated");
  text.resize(cut);
  corpus.training = std::move(text);
  return corpus;
}

}  // namespace support
