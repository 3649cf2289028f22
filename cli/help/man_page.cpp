#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/whole_file.hpp"
#include "help/pages.hpp"
#include "kolo/version.hpp"

namespace kolo::cli {
namespace {

/// Text in which nothing is a request or an escape.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
      result += std::string("\\&") + c;
    } else {
      result += c;
    }
  }
  return result;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text;
}

std::string page_name(const Outline& outline) {
  std::string name = outline.name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string term(const OptionOutline& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back("\\fB" + escaped(name) + "\\fR");
  const std::string value = option.value.empty() ? "" : "\\fI" + escaped(option.value) + "\\fR";
  return fmt::format("{}{}{}", fmt::join(names, ", "), names.empty() || value.empty() ? "" : " ", value);
}

std::string paragraph(const std::string& head, const std::string& text) {
  return ".TP\n" + head + "\n" + escaped(text) + "\n";
}

/// Verbatim lines have up to 80 characters, with an indent of their own: they begin at the left.
constexpr const char* kVerbatim = ".nf\n.in 0\n";
constexpr const char* kEndVerbatim = ".fi\n.in\n";

/// The footer. A line that ends with ":" at the left is a heading, indented lines are verbatim, and others
/// are text.
std::string body(const std::string& footer) {
  std::string result = ".SH DESCRIPTION\n";
  bool is_verbatim = false, is_first = true;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    const bool is_indented = line.starts_with("  ");
    if (is_indented != is_verbatim && !line.empty()) {
      result += is_indented ? kVerbatim : kEndVerbatim;
      is_verbatim = is_indented;
    }
    if (line.empty()) {
      result += is_verbatim ? ".sp\n" : ".PP\n";
    } else if (!is_indented && line.ends_with(':') && line.find(' ') == line.rfind(' ')) {
      line.pop_back();
      if (is_first) result.clear();
      result += ".SH " + escaped(upper(line)) + "\n";
    } else {
      result += escaped(line) + "\n";
    }
    is_first = false;
  }
  return result + (is_verbatim ? kEndVerbatim : "");
}

/// The page in roff.
std::string man_page(const Outline& outline) {
  std::string text =
      fmt::format(".TH {} 1 \"\" \"kolo {}\" \"kolo\"\n", upper(page_name(outline)), version());
  // The purpose of the program itself begins with its name, and has a second sentence.
  std::string purpose = outline.purpose, more;
  if (const std::string name = outline.name + ": "; purpose.starts_with(name)) purpose.erase(0, name.size());
  if (const std::size_t end = purpose.find(". "); end != purpose.npos) {
    more = purpose.substr(end + 2);
    purpose.resize(end);
  }
  text += ".SH NAME\n" + escaped(page_name(outline)) + " \\- " + escaped(purpose) + "\n";
  text += ".SH SYNOPSIS\n.B " + escaped(outline.usage) + "\n";
  if (!more.empty()) text += ".SH DESCRIPTION\n" + escaped(more) + "\n";
  if (!outline.commands.empty()) text += ".SH COMMANDS\n";
  for (const Outline& command : outline.commands)
    text += paragraph("\\fB" + escaped(page_name(command)) + "\\fR(1)", command.purpose);
  if (!outline.arguments.empty()) text += ".SH ARGUMENTS\n";
  for (const OptionOutline& argument : outline.arguments)
    text += paragraph(term(argument), argument.full_text());
  std::string group;
  for (const OptionOutline& option : outline.options) {
    if (option.group != group) text += ".SH " + escaped(upper(option.group)) + "\n";
    group = option.group;
    text += paragraph(term(option), option.full_text());
  }
  if (!outline.footer.empty()) text += body(outline.footer);
  const std::string parent = outline.name.substr(0, std::min(outline.name.find(' '), outline.name.size()));
  return text + (parent == outline.name ? "" : ".SH SEE ALSO\n\\fB" + parent + "\\fR(1)\n");
}

}  // namespace

void write_man_pages(const Outline& outline, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_whole_file((folder / (page_name(outline) + ".1")).string(), man_page(outline)).throw_if_error();
  for (const Outline& command : outline.commands) write_man_pages(command, folder);
}

}  // namespace kolo::cli
