#include "draw/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "draw/web.hpp"
#include "draw/words.hpp"

namespace kolo::draw {
namespace {

using nlohmann::json;

std::string explanation(const Picture& picture) {
  const std::string tap = " Tap a rank to read what it holds.";
  if (picture.collective() == schedule::Collective::barrier) {
    return "Each card is a rank; a slot is filled for every rank that it knows to have come." + tap;
  }
  if (picture.slot_per_rank) {
    const std::string row = picture.frames.parts > 1 ? "; each row is a chunk of the data," : ",";
    return "Each card is a rank" + row +
           " with a slot for every rank whose contribution is in it. A full row is the result." + tap;
  }
  if (picture.colour_per_part)
    return "Each card is a rank; each cell is a chunk, coloured once it is there." + tap;
  return "Each card is a rank; each cell is a chunk, coloured by the rank that it comes from once it is "
         "there." +
         tap;
}

/// [rank, part, done, sets] of each cell that has changed.
json changes(const Frame& frame, const Frame* before) {
  json list = json::array();
  for (std::size_t rank = 0; rank < frame.cells.size(); ++rank) {
    for (std::size_t part = 0; part < frame.cells[rank].size(); ++part) {
      const Cell& cell = frame.cells[rank][part];
      if (before != nullptr && before->cells[rank][part] == cell) continue;
      list.push_back({rank, part, cell.done ? 1 : 0, cell.sets});
    }
  }
  return list;
}

/// [from, to, reduces, [part, set, part, set...]] each, and its phase if the step has several.
json messages(const Frame& frame) {
  const bool is_mixed = std::ranges::any_of(
      frame.messages, [&](const Message& message) { return message.phase != frame.messages[0].phase; });
  json list = json::array();
  for (const Message& message : frame.messages) {
    json values = json::array();
    for (const Value& value : message.values) {
      values.push_back(value.part);
      values.push_back(value.set);
    }
    list.push_back({message.from, message.to, message.reduces ? 1 : 0, std::move(values)});
    if (is_mixed) list.back().push_back(name_of(message.phase));
  }
  return list;
}

json steps(const Picture& picture) {
  json list = json::array();
  const Frame* before = nullptr;
  for (const Frame& frame : picture.frames.frames) {
    list.push_back({{"title", step_heading(picture, list.size())},
                    {"words", step_in_words(picture, list.size())},
                    {"messages", messages(frame)},
                    {"changes", changes(frame, before)},
                    {"moved", {frame.moved.sent, frame.moved.received, frame.moved.link}}});
    before = &frame;
  }
  return list;
}

/// The phases, each with its meaning, its first step and the step after its last one.
json phases(const Picture& picture) {
  json list = json::array();
  for (const Run& run : picture.runs) {
    std::string meaning;
    for (const Phase phase : run.phases) {
      meaning += (meaning.empty() ? "" : " ") + std::string(meaning_of(phase));
    }
    list.push_back(
        {{"name", in_words(run.phases)}, {"meaning", meaning}, {"begin", run.begin}, {"end", run.end}});
  }
  return list;
}

/// Terms and what to know about them.
json about(const Picture& picture) {
  const algorithms::Algorithm& algorithm = *picture.configured.algorithm;
  const algorithms::ClosedForm& form = algorithm.closed_form;
  json list = json::array({{"When to use it", sentence(algorithm.use)}});
  list.push_back(
      {"Steps", fmt::format("{}. Any algorithm takes at least {} = ceil(log2 N).",
                            stated_in_words(picture, std::to_string(picture.stated.steps), form.steps),
                            picture.least.steps)});
  if (picture.collective() != schedule::Collective::barrier) {
    list.push_back({"Bytes that the busiest rank sends",
                    sentence(stated_in_words(picture, picture.of_whole(picture.stated.sent), form.sent))});
    list.push_back({"Bytes that some rank must send or receive",
                    fmt::format("At least {:.4g} n = {}, with any algorithm.", picture.least.through_of_whole,
                                picture.least.through)});
    list.push_back(
        {"Letters", "N: the ranks. n: the bytes of the whole data, over all parts where each rank has one."});
  }
  for (const algorithms::Parameter& parameter : algorithm.parameters) {
    list.push_back({"Parameter " + std::string(parameter.name), sentence(parameter.purpose)});
  }
  list.push_back({"Source", sentence(algorithm.source)});
  return list;
}

json data_of(const Picture& picture) {
  const algorithms::Algorithm& algorithm = *picture.configured.algorithm;
  json places = json::array();
  for (const Point& place : picture.layout.places) places.push_back({place.x, place.y});
  json boxes = json::array();
  for (const Box& box : picture.layout.boxes) {
    boxes.push_back({box.low.x, box.low.y, box.high.x, box.high.y, box.host});
  }
  json links = json::array();
  for (const Link& link : picture.layout.links) links.push_back({link.one, link.other, link.tree});
  json names = json::array();
  for (const auto& set : picture.frames.sets) names.push_back(ranks_in_words(set));
  return {{"ranks", picture.spec.size},
          {"parts", picture.frames.parts},
          {"root", picture.root()},
          {"barrier", picture.collective() == schedule::Collective::barrier},
          {"summing", schedule::is_reducing(picture.collective())},
          {"slotPerRank", picture.slot_per_rank},
          {"colourPerPart", picture.colour_per_part},
          {"colours", picture.colours},
          {"layout", picture.layout.name},
          {"places", places},
          {"boxes", boxes},
          {"links", links},
          {"purpose", sentence(algorithm.purpose)},
          {"explain", explanation(picture)},
          {"about", about(picture)},
          {"phases", phases(picture)},
          {"trees", picture.layout.trees},
          {"least", {picture.least.steps, picture.least.through_of_whole}},
          {"sets", picture.frames.sets},
          {"names", names},
          {"steps", steps(picture)}};
}

}  // namespace

std::string to_html(const Picture& picture, std::string_view links) {
  return filled_in(kPageHtml, {{"@TITLE@", escaped(picture.title())},
                               {"@LINKS@", links},
                               {"@STYLE@", std::string(kThemeCss) + std::string(kPageCss)},
                               {"@DATA@", for_script(data_of(picture).dump())},
                               {"@SCRIPT@", fmt::format("{}{}{}", kThemeJs, kStepsJs, kPageJs)}});
}

}  // namespace kolo::draw
