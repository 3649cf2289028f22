#include "draw/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "catalog/proof.hpp"
#include "draw/picture.hpp"
#include "draw/web.hpp"
#include "draw/words.hpp"

namespace kolo::draw {
namespace {

using nlohmann::json;

constexpr const char* kFrontPage = "index.html";
constexpr const char* kComparison = "compare.html";

std::string id_of(const algorithms::Algorithm& algorithm) {
  return fmt::format("{}-{}", schedule::name_of(algorithm.collective), algorithm.name);
}

std::string file_of(const algorithms::Algorithm& algorithm, int size) {
  return fmt::format("{}-{}.html", id_of(algorithm), size);
}

/// One algorithm, with what is known of it for each number of ranks.
struct Entry {
  const algorithms::Algorithm* algorithm;
  const algorithms::Algorithm* other;  ///< to compare it with
  std::vector<Picture> pictures;       ///< of the sizes that it serves

  std::string id() const { return id_of(*algorithm); }
};

/// "14 steps, sends 1.75 n": what the rank sends that sends most.
std::string cost_in_words(const Picture& picture) {
  const std::size_t steps = picture.frames.steps();
  std::string text = fmt::format("{} step{}", steps, steps == 1 ? "" : "s");
  if (picture.collective() == schedule::Collective::barrier) return text;
  return text + ", sends " + picture.of_whole(picture.frames.frames.back().moved.sent);
}

/// Each phase once: "reduce-scatter, all-gather".
std::string phases_in_words(const Picture& picture) {
  std::vector<Phase> phases;
  for (const Run& run : picture.runs) phases.insert(phases.end(), run.phases.begin(), run.phases.end());
  std::ranges::sort(phases);
  phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  return in_words(phases, ", ");
}

std::string comparison_link(const Entry& entry, int size) {
  return fmt::format("{}#{},{},{}", kComparison, entry.id(), id_of(*entry.other), size);
}

/// The links of an algorithm's page of `size` ranks to other pages.
std::string links_of(const Entry& entry, int size) {
  std::string text =
      fmt::format("\n    <nav class=\"links\"><a href=\"{}#{}\">All algorithms</a>", kFrontPage, entry.id());
  for (const Picture& picture : entry.pictures) {
    const int ranks = picture.spec.size;
    text += ranks == size
                ? fmt::format(" <b>{} ranks</b>", ranks)
                : fmt::format(" <a href=\"{}\">{} ranks</a>", file_of(*entry.algorithm, ranks), ranks);
  }
  return text + fmt::format(" <a href=\"{}\">Compare with another</a></nav>", comparison_link(entry, size));
}

std::string card_of(const Entry& entry, const std::vector<int>& sizes, int shown) {
  std::string text = fmt::format("<li id=\"{}\">\n<h3>{}</h3>\n", entry.id(), escaped(entry.algorithm->name));
  std::string links;
  for (const int size : sizes) {
    const std::string attributes = fmt::format("data-ranks=\"{}\"{}", size, size == shown ? "" : " hidden");
    const auto picture =
        std::ranges::find(entry.pictures, size, [](const Picture& one) { return one.spec.size; });
    if (picture == entry.pictures.end()) {
      text += fmt::format("<p class=\"shot\" {}>No picture for {} ranks.</p>\n", attributes, size);
      continue;
    }
    const std::string file = file_of(*entry.algorithm, size);
    text += fmt::format(
        "<a class=\"shot\" {} href=\"{}\" aria-label=\"{}\">{}<span>{}</span><span>{}</span></a>\n",
        attributes, file, escaped(picture->title()), thumbnail_of(*picture), escaped(cost_in_words(*picture)),
        escaped(phases_in_words(*picture)));
    links += fmt::format("<a href=\"{}\" aria-label=\"{}\">{}</a> ", file, escaped(picture->title()), size);
  }
  return text + fmt::format(
                    "<p>{}</p>\n<p class=\"more\">Ranks: {}<a class=\"compare\" "
                    "href=\"{}\">Compare</a></p>\n</li>\n",
                    escaped(sentence(entry.algorithm->purpose)), links, comparison_link(entry, shown));
}

std::string front_page(const std::vector<Entry>& entries, const std::vector<int>& sizes, int shown) {
  std::string sections, jumps, choices;
  const Entry* last = nullptr;
  for (const Entry& entry : entries) {
    const schedule::Collective collective = entry.algorithm->collective;
    if (last == nullptr || last->algorithm->collective != collective) {
      const std::string name(schedule::name_of(collective));
      sections +=
          fmt::format("{}<section aria-labelledby=\"{}\">\n<h2 id=\"{}\">{}</h2>\n<ul class=\"cards\">\n",
                      last == nullptr ? "" : "</ul>\n</section>\n", name, name, name);
      jumps += fmt::format("<a href=\"#{}\">{}</a> ", name, name);
    }
    sections += card_of(entry, sizes, shown);
    last = &entry;
  }
  sections += "</ul>\n</section>\n";
  for (const int size : sizes) {
    choices +=
        fmt::format("<option value=\"{}\"{}>{}</option>", size, size == shown ? " selected" : "", size);
  }
  return filled_in(kGalleryHtml, {{"@STYLE@", std::string(kThemeCss) + std::string(kGalleryCss)},
                                  {"@COUNT@", std::to_string(entries.size())},
                                  {"@COMPARE@", comparison_link(entries.front(), shown)},
                                  {"@SIZES@", choices},
                                  {"@JUMPS@", jumps},
                                  {"@SECTIONS@", sections},
                                  {"@SCRIPT@", std::string(kThemeJs) + std::string(kGalleryJs)}});
}

std::string comparison(const std::vector<Entry>& entries) {
  json list = json::array();
  for (const Entry& entry : entries) {
    json sizes = json::object();
    for (const Picture& picture : entry.pictures) {
      const Moved& moved = picture.frames.frames.back().moved;
      sizes[std::to_string(picture.spec.size)] = {{"file", file_of(*entry.algorithm, picture.spec.size)},
                                                  {"steps", picture.frames.steps()},
                                                  {"sends", picture.of_whole(moved.sent)},
                                                  {"link", picture.of_whole(moved.link)},
                                                  {"phases", phases_in_words(picture)}};
    }
    list.push_back({{"id", entry.id()},
                    {"collective", schedule::name_of(entry.algorithm->collective)},
                    {"name", entry.algorithm->name},
                    {"purpose", sentence(entry.algorithm->purpose)},
                    {"sizes", std::move(sizes)}});
  }
  return filled_in(kCompareHtml, {{"@STYLE@", std::string(kThemeCss) + std::string(kCompareCss)},
                                  {"@DATA@", for_script(list.dump())},
                                  {"@SCRIPT@", fmt::format("{}{}{}", kThemeJs, kStepsJs, kCompareJs)}});
}

/// The next algorithm of the same collective, or the first one after the last.
const algorithms::Algorithm* next_of(const algorithms::Algorithm& algorithm) {
  const auto all = algorithms::algorithms();
  const auto same = [&](const algorithms::Algorithm& one) { return one.collective == algorithm.collective; };
  const auto after = std::find_if(
      std::ranges::find(all, &algorithm, [](const auto& one) { return &one; }) + 1, all.end(), same);
  return after != all.end() ? &*after : &*std::ranges::find_if(all, same);
}

}  // namespace

std::vector<File> gallery_of(const std::vector<int>& sizes) {
  constexpr int kPreferred = 8;
  const int shown = std::ranges::find(sizes, kPreferred) != sizes.end() ? kPreferred : sizes.back();
  std::vector<Entry> entries;
  std::vector<File> files;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    Entry entry{&algorithm, next_of(algorithm), {}};
    for (const int size : sizes) {
      auto picture = make_picture({&algorithm, {}}, cli::example_of(algorithm, size));
      if (picture.ok()) entry.pictures.push_back(std::move(picture).value());
    }
    for (const Picture& picture : entry.pictures) {
      const int size = picture.spec.size;
      files.push_back({file_of(algorithm, size), to_html(picture, links_of(entry, size))});
    }
    entries.push_back(std::move(entry));
  }
  files.push_back({kFrontPage, front_page(entries, sizes, shown)});
  files.push_back({kComparison, comparison(entries)});
  return files;
}

}  // namespace kolo::draw
